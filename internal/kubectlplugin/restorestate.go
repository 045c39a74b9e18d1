package kubectlplugin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/backup"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// liveState is what exists in the cluster before a restore. Its size depends on the number of objects,
// not on their size.
type liveState struct {
	realms  map[string]liveObject // by name
	clients map[string]liveObject // by namespace and name
	records map[string]liveRecord // by name of the Secret
	// again means that objects that were restored from this or a newer backup before are restored again.
	again bool
}

// liveObject is a Realm or ApiClient.
type liveObject struct {
	uid      types.UID
	spec     [sha256.Size]byte // digest
	deleting bool
	// realm and clientID are those of an ApiClient.
	realm, clientID string
}

// liveRecord is the record of a Realm or ApiClient, or a restore record.
type liveRecord struct {
	uid   types.UID // of the Secret
	owner string
	// client is the UID of the ApiClient that the record belongs to.
	client types.UID
	// unreadable means that the operator can't use the record, so its keys or secrets are lost.
	unreadable bool
	// restoredFrom is the time of the backup from which the owner was restored, or zero.
	restoredFrom time.Time
}

func newLiveRecord(secret *corev1.Secret) liveRecord {
	live := liveRecord{uid: secret.UID, owner: secret.Annotations[v1alpha1.OwnerAnnotation]}
	var restored *record.Restoration
	var err error
	if record.KindOf(secret) == record.KindClient {
		var body record.Client
		body, err = record.ReadClient(secret)
		live.client, restored = body.UID, body.Restored
	} else {
		var body record.Realm
		body, err = record.ReadRealm(secret)
		restored = body.Restored
	}
	if live.unreadable = err != nil; restored != nil {
		live.restoredFrom = restored.BackupTime
	}
	return live
}

// restoredFrom returns the restoration in the record of a Realm or ApiClient; nil if there is none.
func restoredFrom(secret *corev1.Secret) *record.Restoration {
	if record.KindOf(secret) == record.KindClient {
		body, err := record.ReadClient(secret)
		if err != nil {
			return nil
		}
		return body.Restored
	}
	body, err := record.ReadRealm(secret)
	if err != nil {
		return nil
	}
	return body.Restored
}

func newLiveObject(object *unstructured.Unstructured) (liveObject, error) {
	spec, err := backup.Spec(object)
	live := liveObject{uid: object.GetUID(), spec: sha256.Sum256(spec), deleting: object.GetDeletionTimestamp() != nil}
	if object.GetKind() == kindClient {
		clientID, _, _ := unstructured.NestedString(object.Object, "spec", "clientId")
		c := &v1alpha1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
		c.Spec.ClientID = clientID
		live.realm, live.clientID = realmOf(object), c.EffectiveClientID()
	}
	return live, err
}

// readState reads the state of the cluster in pages.
func (c *cluster) readState(ctx context.Context, recordsNamespace string) (*liveState, error) {
	s := &liveState{realms: map[string]liveObject{}, clients: map[string]liveObject{}, records: map[string]liveRecord{}}
	err := c.eachObject(ctx, kindRealm, func(object *unstructured.Unstructured) (err error) {
		s.realms[object.GetName()], err = newLiveObject(object)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = c.eachObject(ctx, kindClient, func(object *unstructured.Unstructured) (err error) {
		s.clients[object.GetNamespace()+"/"+object.GetName()], err = newLiveObject(object)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range []record.Kind{record.KindRealm, record.KindClient} {
		err := c.eachRecord(ctx, recordsNamespace, kind, func(secret *corev1.Secret) error {
			s.records[secret.Name] = newLiveRecord(secret)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	err = c.eachRecordMetadata(ctx, recordsNamespace, record.KindRestore, func(m *metav1.PartialObjectMetadata) {
		s.records[m.Name] = liveRecord{uid: m.UID, owner: m.Annotations[v1alpha1.OwnerAnnotation]}
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// eachRecordMetadata calls visit for every record of a kind. It doesn't read the records themselves.
func (c *cluster) eachRecordMetadata(ctx context.Context, namespace string, kind record.Kind, visit func(*metav1.PartialObjectMetadata)) error {
	next := ""
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		labels := client.MatchingLabels{v1alpha1.RecordLabel: string(kind)}
		if err := c.List(ctx, list, client.InNamespace(namespace), labels, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("listing the records in namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

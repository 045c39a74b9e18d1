package restore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

// live is what exists in the cluster. Its size depends on the number of objects, not on their size,
// except for the keys of realms.
type live struct {
	realms  map[string]*liveObject // by name
	clients map[string]*liveObject // by namespace and name
	records map[string]*liveRecord // by name of the Secret
	// used says for each realm which client of it was used, and when.
	used map[string]string
}

// liveObject is a Realm or ApiClient.
type liveObject struct {
	uid      types.UID
	spec     [sha256.Size]byte // digest
	deleting bool
	// realm and clientID are those of an ApiClient.
	realm, clientID string
	// secretName is the name of the credentials Secret; empty if the secret isn't generated.
	secretName string
	// algorithm is that of new keys of a Realm.
	algorithm signingkey.Algorithm
}

// liveRecord is the record of a Realm or ApiClient.
type liveRecord struct {
	uid   types.UID // of the Secret
	owner string
	// client is the UID of the ApiClient that the record belongs to, and keys are those of a Realm.
	client types.UID
	keys   []signingkey.Key
	// unreadable means that the operator can't use the record, so its keys or secrets are lost.
	unreadable bool
	// restoredFrom is the time of the backup from which the owner was restored, or zero.
	restoredFrom time.Time
}

func newLiveObject(object *unstructured.Unstructured) (*liveObject, error) {
	spec, err := backup.Spec(object)
	if err != nil {
		return nil, err
	}
	l := &liveObject{uid: object.GetUID(), spec: sha256.Sum256(spec), deleting: object.GetDeletionTimestamp() != nil}
	if backup.Kind(object.GetKind()) == backup.KindRealm {
		algorithm, _, _ := unstructured.NestedString(object.Object, "spec", "signing", "algorithm")
		l.algorithm = signingkey.Algorithm(v1beta1.Signing{Algorithm: v1beta1.SigningAlgorithm(algorithm)}.EffectiveAlgorithm())
		return l, nil
	}
	c, err := apiClient(object)
	if err != nil {
		return nil, err
	}
	l.realm, l.clientID = c.Spec.RealmRef.Name, c.EffectiveClientID()
	if c.GeneratesSecret() {
		l.secretName = c.EffectiveSecretName()
	}
	return l, nil
}

// apiClient decodes an ApiClient.
func apiClient(object *unstructured.Unstructured) (*v1beta1.ApiClient, error) {
	c := &v1beta1.ApiClient{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, c); err != nil {
		return nil, fmt.Errorf("decoding ApiClient %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return c, nil
}

// newLiveRecord describes a record. The Secret may be nil.
func newLiveRecord(secret *corev1.Secret) *liveRecord {
	if secret == nil {
		return nil
	}
	l := &liveRecord{uid: secret.UID, owner: secret.Annotations[v1beta1.OwnerAnnotation]}
	var restored *record.Restored
	var err error
	if record.KindOf(secret) == record.KindClient {
		var body record.Client
		body, err = record.ReadClient(secret)
		l.client, restored = body.UID, body.Restored
	} else {
		var body record.Realm
		body, err = record.ReadRealm(secret)
		l.keys, restored = body.Keys, body.Restored
	}
	if l.unreadable = err != nil; restored != nil {
		l.restoredFrom = restored.BackupTime
	}
	return l
}

// readLive reads the state of the cluster in pages.
func readLive(ctx context.Context, c client.Reader, recordsNamespace string) (*live, error) {
	l := &live{realms: map[string]*liveObject{}, clients: map[string]*liveObject{}, records: map[string]*liveRecord{}, used: map[string]string{}}
	err := backup.EachObject(ctx, c, backup.KindRealm, func(object *unstructured.Unstructured) (err error) {
		l.realms[object.GetName()], err = newLiveObject(object)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = backup.EachObject(ctx, c, backup.KindClient, func(object *unstructured.Unstructured) (err error) {
		name := object.GetNamespace() + "/" + object.GetName()
		if l.clients[name], err = newLiveObject(object); err != nil {
			return err
		}
		if at, found, _ := unstructured.NestedString(object.Object, "status", "lastUsedTime"); found {
			l.used[l.clients[name].realm] = fmt.Sprintf("ApiClient %s was used at %s", name, at)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range []record.Kind{record.KindRealm, record.KindClient} {
		err := backup.EachRecord(ctx, c, recordsNamespace, kind, func(secret *corev1.Secret) error {
			l.records[secret.Name] = newLiveRecord(secret)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}

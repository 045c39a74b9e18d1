package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

// write restores everything. An object comes before its record, which contains its UID. Realms come before
// ApiClients, so that no ApiClient can keep the keys of a realm from being restored.
func (p *plan) write(ctx context.Context) error {
	for _, step := range []struct {
		kind  backup.Kind
		visit func(context.Context, *backup.Entry) error
	}{
		{backup.KindRealm, p.writeObject},
		{backup.KindRealmRecord, p.writeRealmRecord},
		{backup.KindClient, p.writeObject},
		{backup.KindClientRecord, p.writeClientRecord},
	} {
		if err := p.Source.Each(func(entry *backup.Entry) error { return step.visit(ctx, entry) }, step.kind); err != nil {
			return err
		}
	}
	return nil
}

// writeObject creates a Realm or ApiClient if it is missing. It never changes one that exists.
func (p *plan) writeObject(ctx context.Context, entry *backup.Entry) error {
	row := p.rows.of(entry.Kind, entry.String())
	if row == nil || row.Problem != "" || p.object(entry.Kind, entry.String()) != nil {
		return nil
	}
	return row.failed(p.createObject(ctx, row, entry), Skipped, NotRestored)
}

func (p *plan) createObject(ctx context.Context, row *Object, entry *backup.Entry) error {
	manifest, err := entry.Manifest()
	if err != nil {
		return err
	}
	created := manifest.DeepCopy()
	switch err := p.create(ctx, created); {
	case apierrors.IsAlreadyExists(err): // another program has created it in the meantime
		created = &unstructured.Unstructured{}
		created.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(manifest.GetKind()))
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(manifest), created); err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
	case err != nil:
		return err
	}
	object, err := newLiveObject(created)
	if err != nil {
		return err
	}
	if entry.Kind == backup.KindRealm {
		p.live.realms[entry.String()] = object
	} else {
		p.live.clients[entry.String()] = object
	}
	if row.Result, err = compare(object, manifest); row.Result == Kept {
		row.Result = Created
	}
	return err
}

func (p *plan) writeRealmRecord(ctx context.Context, entry *backup.Entry) error {
	backed, err := entry.RealmRecord()
	if err != nil || p.rows.of(backup.KindRealm, backed.Name) == nil {
		return err
	}
	object := p.live.realms[backed.Name]
	secret, err := p.read(ctx, client.ObjectKey{Namespace: p.RecordsNamespace, Name: record.RealmRecordName(object.uid)})
	if err != nil {
		return err
	}
	var body record.Realm
	switch p.realmStep(entry, newLiveRecord(secret)) {
	case keep:
		return nil
	case put:
		body = putRealm(backed, p.Contents.Header.CreatedAt, p.Now())
	case add:
		current, err := record.ReadRealm(secret)
		if err != nil {
			return err
		}
		if body, err = addRealm(current, backed, object.algorithm, p.Contents.Header.CreatedAt, p.Now()); err != nil {
			return fmt.Errorf("restoring Realm %s: %w", backed.Name, err)
		}
	}
	owner := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: backed.Name, UID: object.uid}}
	desired, err := recordsecret.ForRealm(p.RecordsNamespace, owner, body)
	if err != nil {
		return err
	}
	return writeRecord(ctx, p.Client, secret, desired)
}

func (p *plan) writeClientRecord(ctx context.Context, entry *backup.Entry) error {
	backed, err := entry.ClientRecord()
	if err != nil {
		return err
	}
	row := p.rows.of(backup.KindClient, backed.Namespace+"/"+backed.Name)
	if row == nil || row.Problem != "" {
		return nil
	}
	realm, object := p.live.realms[backed.RealmName], p.live.clients[row.String()]
	if realm == nil {
		return nil
	}
	if err := p.restoreClient(ctx, entry, backed, object, realm); err != nil {
		return row.failed(err, row.Result, NotRestored)
	}
	return row.failed(p.writeOwner(ctx, row, object, backed), row.Result, row.Data)
}

func (p *plan) restoreClient(ctx context.Context, entry *backup.Entry, backed record.Client, object, realm *liveObject) error {
	secret, err := p.read(ctx, client.ObjectKey{Namespace: p.RecordsNamespace, Name: record.ClientRecordName(realm.uid, backed.ClientID)})
	if err != nil {
		return err
	}
	todo, err := p.clientStep(entry, backed, object, newLiveRecord(secret))
	if err != nil || todo == keep {
		return err
	}
	body := putClient(backed, object.uid, realm.uid, p.Contents.Header.CreatedAt, p.Now())
	if todo == add {
		current, err := record.ReadClient(secret)
		if err != nil {
			return err
		}
		body = addClient(current, backed, p.Contents.Header.CreatedAt, p.Now())
	}
	desired, err := recordsecret.ForClient(p.RecordsNamespace, body)
	if err != nil {
		return err
	}
	return writeRecord(ctx, p.Client, secret, desired)
}

// writeOwner makes an ApiClient the owner of its credentials Secret, if a backup tool has restored the
// Secret without an owner, or with an owner of the same name that no longer exists. The Secret must
// contain a secret of the backup.
func (p *plan) writeOwner(ctx context.Context, row *Object, object *liveObject, backed record.Client) error {
	if object.secretName == "" {
		return nil
	}
	secret, err := p.read(ctx, client.ObjectKey{Namespace: backed.Namespace, Name: object.secretName})
	if err != nil || secret == nil || !abandoned(secret, backed.Name, object) {
		return err
	}
	accepted, _ := backup.AcceptedSecrets(backed, p.Contents.Header.CreatedAt)
	if !slices.ContainsFunc(accepted, func(s record.ClientSecret) bool { return contains(secret, s) }) {
		return nil
	}
	owned := secret.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1beta1.GroupVersion.String(), Kind: string(backup.KindClient), Name: backed.Name, UID: object.uid, Controller: new(true),
	}}
	patch := client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})
	if err := p.Client.Patch(ctx, owned, patch, fieldOwner); err != nil {
		return fmt.Errorf("setting the owner of Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	row.Credentials = secret.Name
	return nil
}

// abandoned reports whether a credentials Secret has no owner, or another ApiClient with the same name.
func abandoned(secret *corev1.Secret, name string, object *liveObject) bool {
	owner := metav1.GetControllerOf(secret)
	return secret.Labels[v1beta1.ClientSecretLabel] == v1beta1.ClientSecretGenerated && secret.DeletionTimestamp.IsZero() &&
		(owner == nil || owner.Kind == string(backup.KindClient) && owner.Name == name && owner.UID != object.uid)
}

// contains reports whether a credentials Secret contains a generated secret.
func contains(secret *corev1.Secret, generated record.ClientSecret) bool {
	verifier, err := clientsecret.ParseVerifier(generated.Hash)
	if err != nil || verifier.IsSlow() {
		return false
	}
	for _, value := range secret.Data {
		if clientsecret.WellFormed(string(value)) && verifier.Verify(string(value)) {
			return true
		}
	}
	return false
}

// read returns a Secret, or nil if there is none.
func (p *plan) read(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := p.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // A missing Secret is not an error.
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return secret, nil
}

// writeRecord creates a record, or changes the given revision of it. Like the operator, it owns all
// fields that it writes.
func writeRecord(ctx context.Context, c client.Client, current *corev1.Secret, desired *corev1ac.SecretApplyConfiguration) error {
	if current != nil {
		desired.WithUID(current.UID).WithResourceVersion(current.ResourceVersion)
		if err := c.Apply(ctx, desired, client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership); err != nil {
			return fmt.Errorf("changing record %s: %w", current.Name, err)
		}
		return nil
	}
	secret := &corev1.Secret{}
	encoded, err := json.Marshal(desired)
	if err == nil {
		err = json.Unmarshal(encoded, secret)
	}
	if err == nil {
		err = c.Create(ctx, secret, client.FieldOwner(v1beta1.FieldOwner))
	}
	if err != nil {
		return fmt.Errorf("creating record %s: %w", *desired.Name, err)
	}
	return nil
}

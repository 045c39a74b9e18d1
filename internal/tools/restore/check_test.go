package restore_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
	"github.com/realmkeeper/realmkeeper/internal/tools/restore"
)

const serviceURL = "https://api.example.com"

func realm(uid types.UID) *v1beta1.Realm {
	return &v1beta1.Realm{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Realm"}, ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: uid}}
}

func billing(uid types.UID, change ...func(*v1beta1.ApiClient)) *v1beta1.ApiClient {
	c := &v1beta1.ApiClient{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "ApiClient"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme-apps", Name: "billing", UID: uid},
	}
	c.Spec.RealmRef.Name, c.Spec.ClientID = "acme", "billing"
	for _, f := range change {
		f(c)
	}
	return c
}

// realmRecord returns the record of the realm with the given UID and keys.
func realmRecord(t *testing.T, uid types.UID, restoredFrom time.Time, keys ...signingkey.Key) *corev1.Secret {
	t.Helper()
	body := record.Realm{Name: "acme", Issuer: serviceURL + "/acme", TokenLifetimeSeconds: 300, Keys: keys}
	if !restoredFrom.IsZero() {
		body.Restored = &record.Restored{BackupTime: restoredFrom, At: restoredFrom}
	}
	desired := testkit.Value(recordsecret.ForRealm("records", realm(uid), body))(t)
	secret := secretOf(t, desired)
	secret.UID = "record-" + uid
	return secret
}

// orders is another client of the realm.
func orders(uid types.UID) *v1beta1.ApiClient {
	return billing(uid, func(c *v1beta1.ApiClient) { c.Name, c.Spec.ClientID = "orders", "orders" })
}

func ordersRecord(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := secretOf(t, testkit.Value(recordsecret.ForClient("records", record.Client{
		UID: "o1", Namespace: "acme-apps", Name: "orders", RealmUID: "r1", RealmName: "acme", ClientID: "orders", Identity: "o1",
		Audiences: []string{"x"}, Secrets: []record.ClientSecret{},
	}))(t))
	secret.UID = "record-o1"
	return secret
}

// write writes a backup of the realm acme with the given key and of its clients.
func write(t *testing.T, signs signingkey.Key) *backup.Source {
	t.Helper()
	identity := testkit.Value(age.GenerateX25519Identity())(t)
	var file bytes.Buffer
	w := testkit.Value(backup.NewWriter(&file, backup.Header{CreatedAt: backupTime, ServiceURL: serviceURL}, identity.Recipient()))(t)
	for _, object := range []client.Object{realm("r1"), billing("c1"), orders("o1")} {
		content := testkit.Value(runtime.DefaultUnstructuredConverter.ToUnstructured(object))(t)
		entry, err := backup.NewObject(&unstructured.Unstructured{Object: content})
		if err == nil {
			err = w.Write(entry)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range []*corev1.Secret{realmRecord(t, "r1", time.Time{}, signs), recordOf(t, "record-c1", "", "c1", time.Time{}), ordersRecord(t)} {
		testkit.Do(t, w.Write(backup.NewRecord(secret)))
	}
	testkit.Value(w.Close())(t)
	return &backup.Source{File: bytes.NewReader(file.Bytes()), Identities: []age.Identity{identity}}
}

// A realm that is in use isn't changed without --replace.
func TestCheckLivingRealm(t *testing.T) {
	signs := key(t, signingkey.Active)
	aged := func(age time.Duration) signingkey.Key {
		return key(t, signingkey.Active, func(k *signingkey.Key) { k.CreatedAt = now.Add(-age) })
	}
	used := billing("c2", func(c *v1beta1.ApiClient) { c.Status.LastUsedTime = &metav1.Time{Time: now} })
	ownClient := recordOf(t, "record-c2", "", "c2", time.Time{})
	own, never := aged(2*time.Hour), time.Time{}
	for name, test := range map[string]struct {
		live    []client.Object
		replace bool
		wantErr error
	}{
		"empty cluster":          {},
		"young key":              {live: []client.Object{realm("r2"), realmRecord(t, "r2", never, aged(time.Minute))}},
		"old key":                {live: []client.Object{realm("r2"), realmRecord(t, "r2", never, own)}, wantErr: restore.ErrLiving},
		"old key, replace":       {live: []client.Object{realm("r2"), realmRecord(t, "r2", never, own)}, replace: true},
		"old key of the backup":  {live: []client.Object{realm("r2"), realmRecord(t, "r2", never, signs)}},
		"client was used":        {live: []client.Object{realm("r2"), realmRecord(t, "r2", never, aged(time.Minute)), used, ownClient}, wantErr: restore.ErrLiving},
		"record lost":            {live: []client.Object{realm("r2"), used}},
		"never lost":             {live: []client.Object{realm("r1"), realmRecord(t, "r1", never, own)}},
		"restored before":        {live: []client.Object{realm("r2"), realmRecord(t, "r2", backupTime, own), used, ownClient}},
		"realm is being deleted": {live: []client.Object{deleting(realm("r2"))}, wantErr: restore.ErrDeleting},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(obj client.Object, dryRun bool) error {
				if !dryRun {
					t.Errorf("Check creates %s", obj.GetName())
				}
				return nil
			}, test.live...)
			r := restoreInto(t, c, signs)
			r.Replace = test.replace
			if _, err := r.Check(t.Context()); !errors.Is(err, test.wantErr) || test.wantErr != nil && !errors.Is(err, restore.ErrRejected) {
				t.Errorf("Check: %v, want %v", err, test.wantErr)
			}
		})
	}
}

func deleting(obj client.Object) client.Object {
	obj.SetDeletionTimestamp(&metav1.Time{Time: now})
	obj.SetFinalizers([]string{"example.com/hold"})
	return obj
}

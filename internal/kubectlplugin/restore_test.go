package kubectlplugin_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/kubectlplugin"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// fakeCluster is an API server with an operator that a test controls.
type fakeCluster struct {
	ctrlclient.Client

	uids int
	// conflict is the name of a Secret that another program changes before it is deleted.
	conflict string
}

func newFakeCluster(t *testing.T) *fakeCluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fakeCluster{}
	f.Client = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c ctrlclient.WithWatch, obj ctrlclient.Object, options ...ctrlclient.CreateOption) error {
			if obj.GetUID() == "" {
				f.uids++
				obj.SetUID(types.UID(fmt.Sprintf("new-%d", f.uids)))
			}
			return c.Create(ctx, obj, options...)
		},
		Delete: func(ctx context.Context, c ctrlclient.WithWatch, obj ctrlclient.Object, options ...ctrlclient.DeleteOption) error {
			if obj.GetName() == f.conflict {
				return apierrors.NewConflict(corev1.Resource("secrets"), obj.GetName(), nil)
			}
			return c.Delete(ctx, obj, options...)
		},
	}).Build()
	return f
}

func (f *fakeCluster) create(t *testing.T, objects ...ctrlclient.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := f.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fakeCluster) delete(t *testing.T, objects ...ctrlclient.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := f.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// restores returns the restore records by owner.
func (f *fakeCluster) restores(t *testing.T) map[string]*corev1.Secret {
	t.Helper()
	list := &corev1.SecretList{}
	if err := f.List(t.Context(), list, ctrlclient.MatchingLabels{v1alpha1.RecordLabel: v1alpha1.RecordRestore}); err != nil {
		t.Fatal(err)
	}
	found := map[string]*corev1.Secret{}
	for i := range list.Items {
		found[list.Items[i].Annotations[v1alpha1.OwnerAnnotation]] = &list.Items[i]
	}
	return found
}

// mark marks the restore record of an object as adopted, as the operator does first.
func (f *fakeCluster) mark(t *testing.T, owner, adopter string) *corev1.Secret {
	t.Helper()
	secret := f.restores(t)[owner]
	if secret == nil {
		t.Fatalf("There is no restore record of %s", owner)
	}
	secret.Annotations[v1alpha1.AdoptedByAnnotation] = adopter
	if err := f.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// adoptClient adopts the restore record of the client as one of the given backup: it is marked and
// recorded.
func (f *fakeCluster) adoptClient(t *testing.T, realm, uid types.UID, backupTime time.Time) *corev1.Secret {
	t.Helper()
	restore := f.mark(t, "apps/billing", record.AdoptedBy(realm, uid))
	body := clientBody(t, realm, uid)
	body.Restored = &record.Restoration{From: restore.UID, BackupTime: backupTime, At: backupTime}
	f.create(t, recordOfClient(t, body))
	return restore
}

func realmObject(name string, uid types.UID) *v1alpha1.Realm {
	return &v1alpha1.Realm{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
}

func apiClient(uid types.UID) *v1alpha1.ApiClient {
	c := &v1alpha1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "billing", UID: uid}}
	c.Spec.RealmRef.Name, c.Spec.ClientID = "acme", "billing"
	return c
}

func secretOf(t *testing.T, applied any, err error) *corev1.Secret {
	t.Helper()
	encoded, encodeErr := json.Marshal(applied)
	secret := &corev1.Secret{}
	if err != nil || encodeErr != nil {
		t.Fatal(err, encodeErr)
	}
	if err := json.Unmarshal(encoded, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func recordOfRealm(t *testing.T, of *v1alpha1.Realm, serviceURL string) *corev1.Secret {
	t.Helper()
	key, err := signingkey.Generate(signingkey.ES256, backupTime, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key.State = signingkey.Active
	applied, err := record.ForRealm("records", of, record.Realm{
		Name: of.Name, Issuer: serviceURL + "/" + of.Name, TokenLifetimeSeconds: 300, KeyCacheSeconds: 300, Keys: []signingkey.Key{key},
	})
	return secretOf(t, applied, err)
}

func recordOfClient(t *testing.T, body record.Client) *corev1.Secret {
	t.Helper()
	applied, err := record.ForClient("records", body)
	return secretOf(t, applied, err)
}

func restoreSecret(t *testing.T, body record.Restore) *corev1.Secret {
	t.Helper()
	applied, err := record.ForRestore("records", body)
	return secretOf(t, applied, err)
}

func clientBody(t *testing.T, realm, uid types.UID) record.Client {
	t.Helper()
	return record.Client{
		UID: uid, Namespace: "apps", Name: "billing", RealmUID: realm, RealmName: "acme", ClientID: "billing",
		Identity: "c1", Audiences: []string{"x"}, Secrets: newSecrets(t, 1, backupTime),
	}
}

func newSecrets(t *testing.T, n int, createdAt time.Time) []record.ClientSecret {
	t.Helper()
	var secrets []record.ClientSecret
	for range n {
		verifier, err := clientsecret.Hash(rand.Text(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, record.ClientSecret{ID: verifier.ID(), CreatedAt: createdAt, Hash: verifier.String()})
	}
	return secrets
}

const thisURL, oldURL = "https://api.example.com", "https://api.old.example"

// backedUp is a backup of the Realm acme and its client apps/billing.
type backedUp struct {
	path     string
	identity age.Identity
}

// backUp backs up a cluster and returns the backup, the report, and the error.
func backUp(t *testing.T, f *fakeCluster, serviceURL string) (b backedUp, report string, err error) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	var out, file bytes.Buffer
	err = kubectlplugin.RunBackup(t.Context(), f, &out, &file, backupTime, serviceURL, identity.Recipient())
	b = backedUp{path: filepath.Join(t.TempDir(), "backup"), identity: identity}
	if err := os.WriteFile(b.path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return b, words(out.String()), err
}

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// sourceCluster has the Realm acme with the client apps/billing.
func sourceCluster(t *testing.T) *fakeCluster {
	t.Helper()
	f := newFakeCluster(t)
	f.create(t, realmObject("acme", "r1"), apiClient("c1"), recordOfRealm(t, realmObject("acme", "r1"), thisURL), recordOfClient(t, clientBody(t, "r1", "c1")))
	return f
}

func newBackup(t *testing.T) backedUp {
	t.Helper()
	b, report, err := backUp(t, sourceCluster(t), thisURL)
	if err != nil {
		t.Fatalf("backup: %v\n%s", err, report)
	}
	return b
}

// restore restores the backup and returns the report.
func (b backedUp) restore(t *testing.T, f *fakeCluster, flags kubectlplugin.RestoreFlags) (string, error) {
	t.Helper()
	var out bytes.Buffer
	flags.Identity = b.identity
	if flags.URL == "" {
		flags.URL = thisURL
	}
	err := kubectlplugin.RunRestore(t.Context(), f, &out, b.path, flags)
	return words(out.String()), err
}

func finish(t *testing.T, f *fakeCluster, flags kubectlplugin.RestoreFlags) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := kubectlplugin.RunRestore(t.Context(), f, &out, "", flags)
	return words(out.String()), err
}

func expect(t *testing.T, report string, err error, wantErr string, want ...string) {
	t.Helper()
	if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
		t.Errorf("Error %v, want %q\n%s", err, wantErr, report)
	}
	for _, w := range want {
		if !strings.Contains(report, w) {
			t.Errorf("The report lacks %q:\n%s", w, report)
		}
	}
}

// A restore is complete when the operator has recorded the keys and secrets. The mark of the adopter is
// not enough, because the operator writes it before.
func TestRestoreWaitsForRecords(t *testing.T) {
	b, f := newBackup(t), newFakeCluster(t)
	f.create(t, realmObject("acme", "r2"), apiClient("c2"))
	report, err := b.restore(t, f, kubectlplugin.RestoreFlags{})
	expect(t, report, err, "", "1 key to adopt", "1 secret to adopt")
	f.mark(t, "acme", record.AdoptedBy("r2", ""))
	f.mark(t, "apps/billing", record.AdoptedBy("r2", "c2"))
	report, err = b.restore(t, f, kubectlplugin.RestoreFlags{Wait: true})
	expect(t, report, err, "has not adopted 2 objects", "1 secret to adopt")
	f.adoptClient(t, "r2", "c2", backupTime)
	report, err = b.restore(t, f, kubectlplugin.RestoreFlags{Wait: true})
	expect(t, report, err, "has not adopted 1 object, such as Realm acme", "1 key to adopt", "1 secret adopted")
}

// Secrets that ended after a restore don't return when the same backup is restored again, or an older one.
func TestRestoreAgain(t *testing.T) {
	for name, restoredFrom := range map[string]time.Time{"the same backup": backupTime, "an older backup": backupTime.Add(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			b, f := newBackup(t), newFakeCluster(t)
			f.create(t, realmObject("acme", "r2"), apiClient("c2"))
			report, err := b.restore(t, f, kubectlplugin.RestoreFlags{})
			expect(t, report, err, "", "1 secret to adopt")
			f.delete(t, f.adoptClient(t, "r2", "c2", restoredFrom)) // its secret was revoked
			report, err = b.restore(t, f, kubectlplugin.RestoreFlags{})
			expect(t, report, err, "", "apps/billing kept unchanged")
			if f.restores(t)["apps/billing"] != nil {
				t.Error("The restore brought a secret back that had ended")
			}
			report, err = b.restore(t, f, kubectlplugin.RestoreFlags{Again: true})
			expect(t, report, err, "", "1 secret to adopt")
		})
	}
}

// A restore record that a deleted object has adopted is of no use to the one that replaces it.
func TestRestoreReplacesRecordOfDeletedObject(t *testing.T) {
	b, f := newBackup(t), newFakeCluster(t)
	f.create(t, realmObject("acme", "r2"))
	report, err := b.restore(t, f, kubectlplugin.RestoreFlags{})
	expect(t, report, err, "")
	first := f.mark(t, "apps/billing", record.AdoptedBy("r2", "deleted"))
	report, err = b.restore(t, f, kubectlplugin.RestoreFlags{})
	expect(t, report, err, "", "1 secret to adopt")
	second := f.restores(t)["apps/billing"]
	if second == nil || second.UID == first.UID || record.Adopter(second) != "" {
		t.Errorf("Restore record %v, want a new one without an adopter", second)
	}
}

// Another restore that is not finished is named with what to do.
func TestRestoreDuringAnotherRestore(t *testing.T) {
	for name, tc := range map[string]struct {
		adopter, want string
	}{
		"adopted":     {record.AdoptedBy("r2", "c2"), "restore --finish"},
		"not adopted": {"", "kubectl delete secret restore-"},
	} {
		t.Run(name, func(t *testing.T) {
			b, f := newBackup(t), newFakeCluster(t)
			other := restoreSecret(t, record.RestoreClient(clientBody(t, "r0", "c0"), backupTime.Add(-time.Hour)))
			if tc.adopter != "" {
				other.Annotations[v1alpha1.AdoptedByAnnotation] = tc.adopter
			}
			f.create(t, realmObject("acme", "r2"), apiClient("c2"), other)
			report, err := b.restore(t, f, kubectlplugin.RestoreFlags{})
			expect(t, report, err, "1 of 2 objects", tc.want)
		})
	}
}

// A realm with an old issuer must not prevent the restore of the others.
func TestRestoreChecksServiceURLOfEachRealm(t *testing.T) {
	source := sourceCluster(t)
	source.create(t, realmObject("rejected", "r9"), recordOfRealm(t, realmObject("rejected", "r9"), oldURL))
	b, report, err := backUp(t, source, thisURL)
	expect(t, report, err, "", "another service URL than the instance", "rejected ("+oldURL+")")

	// The backup is of an instance with the same URL, so everything is restored.
	report, err = b.restore(t, newFakeCluster(t), kubectlplugin.RestoreFlags{})
	expect(t, report, err, "", "Realm acme created", "Realm rejected created")

	f := newFakeCluster(t)
	report, err = b.restore(t, f, kubectlplugin.RestoreFlags{URL: oldURL})
	expect(t, report, err, "2 of 3 objects", "Realm acme failed", "ApiClient apps/billing failed", "Realm rejected created")
	if found := f.restores(t); len(found) != 1 || found["rejected"] == nil {
		t.Errorf("Restore records %v, want one of the realm with this URL", found)
	}

	f = newFakeCluster(t)
	report, err = b.restore(t, f, kubectlplugin.RestoreFlags{URL: oldURL, Realm: "acme"})
	expect(t, report, err, "belongs to another token service")
	report, err = b.restore(t, f, kubectlplugin.RestoreFlags{URL: "https://api.third.example"})
	expect(t, report, err, "belongs to another token service")
	if found := f.restores(t); len(found) != 0 {
		t.Errorf("Restore records %v, want none", found)
	}
}

// A client keeps its identity and newest secrets if it has more than a restore record can contain.
func TestRestoreTooManySecrets(t *testing.T) {
	body := clientBody(t, "r1", "c1")
	body.Restored = &record.Restoration{From: "x", BackupTime: backupTime, At: backupTime, Secrets: newSecrets(t, 15, backupTime.Add(-time.Hour))}
	oldest := newSecrets(t, 1, backupTime.Add(-2*time.Hour))
	body.Restored.Secrets = append(oldest, body.Restored.Secrets...)
	source := newFakeCluster(t)
	source.create(t, realmObject("acme", "r1"), apiClient("c1"), recordOfRealm(t, realmObject("acme", "r1"), thisURL), recordOfClient(t, body))
	b, report, err := backUp(t, source, thisURL)
	expect(t, report, err, "1 client has more than 16 secrets", "apps/billing (1 secret)")
	f := newFakeCluster(t)
	report, err = b.restore(t, f, kubectlplugin.RestoreFlags{})
	expect(t, report, err, "", "16 secrets to adopt", "OMITTED", oldest[0].ID)
	if restore, err := record.ReadRestore(f.restores(t)["apps/billing"]); err != nil || restore.Client.Identity != "c1" {
		t.Errorf("Restore record %+v, %v; want the identity c1", restore.Client, err)
	}
}

// A backup lacks what the operator has not adopted, and says so.
func TestBackupDuringRestore(t *testing.T) {
	b, f := newBackup(t), newFakeCluster(t)
	f.create(t, realmObject("acme", "r2"), apiClient("c2"))
	report, err := b.restore(t, f, kubectlplugin.RestoreFlags{})
	expect(t, report, err, "")
	_, report, err = backUp(t, f, thisURL)
	expect(t, report, err, "2 restore records of an earlier restore", "(of acme)", "(of apps/billing)")
	f.adoptClient(t, "r2", "c2", backupTime)
	_, report, err = backUp(t, f, thisURL)
	expect(t, report, err, "1 restore record of an earlier restore", "(of acme)")
	f.delete(t, f.restores(t)["acme"])
	_, report, err = backUp(t, f, thisURL)
	expect(t, report, err, "")
}

// --finish keeps everything that exists only in a restore record.
func TestFinish(t *testing.T) {
	b, f := newBackup(t), newFakeCluster(t)
	f.create(t, realmObject("acme", "r2"), apiClient("c2"))
	report, err := b.restore(t, f, kubectlplugin.RestoreFlags{})
	expect(t, report, err, "")
	f.mark(t, "acme", record.AdoptedBy("r2", ""))
	f.mark(t, "apps/billing", record.AdoptedBy("r2", "c2"))
	report, err = finish(t, f, kubectlplugin.RestoreFlags{})
	expect(t, report, err, "has not adopted everything: 2 objects", "acme not adopted, kept", "apps/billing not adopted, kept")
	f.adoptClient(t, "r2", "c2", backupTime)
	report, err = finish(t, f, kubectlplugin.RestoreFlags{})
	expect(t, report, err, "has not adopted everything: 1 object", "acme not adopted, kept", "apps/billing finished")
	report, err = finish(t, f, kubectlplugin.RestoreFlags{Force: true})
	expect(t, report, err, "", "acme discarded")
}

// A conflict with the operator concerns one object. The others are finished.
func TestFinishAfterConflict(t *testing.T) {
	f := newFakeCluster(t)
	f.create(t, restoreSecret(t, record.RestoreClient(clientBody(t, "r2", "c2"), backupTime)))
	f.conflict = f.restores(t)["apps/billing"].Name
	another := clientBody(t, "r2", "c3")
	another.Name, another.ClientID = "orders", "orders"
	f.create(t, restoreSecret(t, record.RestoreClient(another, backupTime)))
	report, err := finish(t, f, kubectlplugin.RestoreFlags{Force: true})
	expect(t, report, err, "some objects were not finished: 1 object", "apps/billing failed", "apps/orders discarded")
}

// --finish discards what no object can adopt. It names what it can't read.
func TestFinishOfUselessRecords(t *testing.T) {
	for name, tc := range map[string]struct {
		restore func(t *testing.T, f *fakeCluster, secret *corev1.Secret)
		flags   kubectlplugin.RestoreFlags
		want    string
		wantErr string
	}{
		"adopted by a deleted client": {
			restore: func(_ *testing.T, _ *fakeCluster, secret *corev1.Secret) {
				secret.Annotations[v1alpha1.AdoptedByAnnotation] = record.AdoptedBy("r2", "deleted")
			},
			want: "apps/billing discarded",
		},
		"client ID held by another": {
			restore: func(t *testing.T, f *fakeCluster, _ *corev1.Secret) {
				t.Helper()
				holder := clientBody(t, "r2", "c9")
				holder.Name = "other"
				f.create(t, recordOfClient(t, holder))
			},
			want: "apps/billing discarded",
		},
		"client does not exist yet": {want: "apps/billing not adopted, kept", wantErr: "1 object"},
		"unreadable": {
			restore: func(_ *testing.T, _ *fakeCluster, secret *corev1.Secret) { secret.Data = nil },
			want:    "kubectl delete secret restore-", wantErr: "1 object",
		},
		"unreadable, of an unknown realm": {
			restore: func(_ *testing.T, _ *fakeCluster, secret *corev1.Secret) { secret.Data = nil },
			flags:   kubectlplugin.RestoreFlags{Realm: "acme", Force: true},
			want:    "apps/billing unreadable, kept",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCluster(t)
			f.create(t, realmObject("acme", "r2"))
			secret := restoreSecret(t, record.RestoreClient(clientBody(t, "r0", "c0"), backupTime))
			if tc.restore != nil {
				tc.restore(t, f, secret)
			}
			f.create(t, secret)
			report, err := finish(t, f, tc.flags)
			expect(t, report, err, tc.wantErr, tc.want)
			if left := f.restores(t)["apps/billing"] != nil; left != strings.Contains(report, "kept") {
				t.Errorf("The restore record exists: %t\n%s", left, report)
			}
		})
	}
}

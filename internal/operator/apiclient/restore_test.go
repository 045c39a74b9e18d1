package apiclient

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// backupTime is the time of the backup in all tests.
var backupTime = now.Add(-24 * time.Hour)

// restorable returns a restore record for the client of observe, with the identity "old" and one
// secret, and the secret's plaintext.
func restorable(t *testing.T, uid types.UID, change ...func(*record.RestoredClient)) (*corev1.Secret, string) {
	t.Helper()
	plaintext, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := clientsecret.Hash(plaintext, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	client := &record.RestoredClient{
		RealmName: "acme", ClientID: "team.billing", Namespace: "team", Name: "billing", Identity: "old",
		Secrets: []record.ClientSecret{{ID: "restored", CreatedAt: backupTime, Hash: verifier.String()}},
	}
	for _, f := range change {
		f(client)
	}
	desired, err := record.ForRestore("records", record.Restore{BackupTime: backupTime, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := apply.Convert[corev1.Secret](desired)
	if err != nil {
		t.Fatal(err)
	}
	secret.UID = uid
	return secret, plaintext
}

// withRestore returns the observed state of a client with a restore record.
func withRestore(t *testing.T, seen observed, secret *corev1.Secret) observed {
	t.Helper()
	seen.readRestore(secret)
	return seen
}

func adoptedBy(secret *corev1.Secret, adopter string) *corev1.Secret {
	secret = secret.DeepCopy()
	secret.Annotations[v1alpha1.AdoptedByAnnotation] = adopter
	return secret
}

func restoredCount(r *record.Restoration) int {
	if r == nil {
		return 0
	}
	return len(r.Secrets)
}

func TestDecideAdoptsRestoreRecord(t *testing.T) {
	good, _ := restorable(t, "s1")
	other, _ := restorable(t, "s1", func(c *record.RestoredClient) { c.Namespace = "another" })
	damaged := good.DeepCopy()
	damaged.Data = nil
	generated := observe()
	existing := reconciled(t, observe())
	for name, test := range map[string]struct {
		seen         observed
		secret       *corev1.Secret
		wantAdopts   bool
		wantIdentity types.UID
		wantAccepted int
		wantReason   v1alpha1.ConditionReason
	}{
		"no restore record":                 {generated, nil, false, "c1", 0, ""},
		"new client":                        {generated, good, true, "old", 1, v1alpha1.ReasonRestoredFromBackup},
		"client that exists already":        {existing, good, true, "old", 1, v1alpha1.ReasonRestoredFromBackup},
		"adopted by the client":             {generated, adoptedBy(good, "r1/c1"), true, "old", 1, v1alpha1.ReasonRestoredFromBackup},
		"adopted by a deleted client":       {generated, adoptedBy(good, "r1/c0"), false, "c1", 0, v1alpha1.ReasonRestoreRecordIgnored},
		"adopted in a deleted realm":        {generated, adoptedBy(good, "r0/c1"), false, "c1", 0, v1alpha1.ReasonRestoreRecordIgnored},
		"record of another ApiClient":       {generated, other, false, "c1", 0, v1alpha1.ReasonRestoreRecordIgnored},
		"damaged record":                    {generated, damaged, false, "c1", 0, v1alpha1.ReasonRestoreRecordIgnored},
		"client without a secret in spec":   {observe(withKey), good, true, "old", 0, v1alpha1.ReasonRestoredFromBackup},
		"credentials Secret does not exist": {observe(func(s *observed) { s.credentials = nil }), good, true, "old", 1, v1alpha1.ReasonRestoredFromBackup},
	} {
		t.Run(name, func(t *testing.T) {
			seen := withRestore(t, test.seen, test.secret)
			d := mustDecide(t, seen)
			if d.adopts != test.wantAdopts || d.record.Identity != test.wantIdentity || restoredCount(d.record.Restored) != test.wantAccepted {
				t.Errorf("adopts %t with identity %q and %d restored secrets, want %t, %q, and %d",
					d.adopts, d.record.Identity, restoredCount(d.record.Restored), test.wantAdopts, test.wantIdentity, test.wantAccepted)
			}
			reason := v1alpha1.ConditionReason("")
			if result := restored(&seen, d.record.Restored); result != nil {
				reason = result.Reason
			}
			if reason != test.wantReason {
				t.Errorf("reason %q, want %q", reason, test.wantReason)
			}
			if d.adopts {
				next := withRestore(t, afterWrite(t, seen, d), adoptedBy(test.secret, "r1/c1"))
				again := mustDecide(t, next)
				if diff := cmp.Diff(d.record.Restored, again.record.Restored); diff != "" || again.adopts || again.record.Identity != test.wantIdentity {
					t.Errorf("deciding again adopts %t, restoration (-first +second):\n%s", again.adopts, diff)
				}
			}
		})
	}
}

func withKey(seen *observed) {
	seen.client.Spec.Secret = nil
	seen.client.Spec.ServiceAccounts = []v1alpha1.ServiceAccountReference{{Name: "billing"}}
	seen.accounts = map[string]types.UID{"billing": "1"}
}

// adopted returns the state of a client that has adopted a restore record.
func adopted(t *testing.T) (observed, string) {
	t.Helper()
	secret, plaintext := restorable(t, "s1", func(c *record.RestoredClient) { c.TokensValidAfter = backupTime.Add(-time.Hour) })
	seen := withRestore(t, observe(), secret)
	d := mustDecide(t, seen)
	return withRestore(t, afterWrite(t, seen, d), adoptedBy(secret, "r1/c1")), plaintext
}

func TestDecideEndsRestoredSecrets(t *testing.T) {
	revoke := func(s *observed) { s.client.Spec.TokensValidAfter = &metav1.Time{Time: now} }
	rotate := func(s *observed) {
		s.client.Spec.Secret.Generated.Rotation.RotateAfter = &metav1.Time{Time: now.Add(time.Second)}
		if d := step(t, s, now.Add(time.Second)); d.plan.Pending == "" || len(d.record.Secrets) != 2 {
			t.Fatalf("the rotation has not begun: %+v", d.record)
		}
	}
	listHash := withHashes(hashOf(t, "listed", password))
	for name, test := range map[string]struct {
		change       func(*observed)
		wantAccepted int
	}{
		"nothing changed":              {func(*observed) {}, 1},
		"restore finished":             {func(s *observed) { s.readRestore(nil) }, 0},
		"credentials Secret lost":      {func(s *observed) { s.credentials = nil }, 1},
		"tokens revoked":               {revoke, 0},
		"revoked before the restore":   {func(s *observed) { s.client.Spec.TokensValidAfter = &metav1.Time{Time: now.Add(-time.Second)} }, 1},
		"revocation of the backup":     {func(s *observed) { s.current.Restored.TokensValidAfter = now; revoke(s) }, 1},
		"tokens and secret revoked":    {func(s *observed) { revoke(s); s.credentials = nil }, 0},
		"revoked during a rotation":    {func(s *observed) { rotate(s); revoke(s); s.credentials = nil }, 0},
		"revoked, provided secret":     {func(s *observed) { withProvided(0)(s); s.provided = providedSecret(1, password); revoke(s) }, 0},
		"provided secret":              {func(s *observed) { withProvided(0)(s); s.provided = providedSecret(1, password) }, 1},
		"revoked, hashed secret":       {func(s *observed) { listHash(s); revoke(s) }, 0},
		"hashed secret":                {listHash, 0},
		"revoked and rejected":         {func(s *observed) { s.client.Spec.Scopes = []string{"unknown"}; revoke(s) }, 0},
		"no secret in the spec":        {withKey, 0},
		"rejected":                     {func(s *observed) { s.client.Spec.Scopes = []string{"unknown"} }, 1},
		"rejected after the finish":    {func(s *observed) { s.client.Spec.Scopes = []string{"unknown"}; s.readRestore(nil) }, 0},
		"suspended":                    {func(s *observed) { s.client.Spec.Suspend = true }, 1},
		"another restore of no secret": {func(s *observed) { s.readRestore(emptied(t, "s2")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			seen, _ := adopted(t)
			test.change(&seen)
			hashProvided(t, &seen)
			d := mustDecide(t, seen)
			if got := restoredCount(d.record.Restored); got != test.wantAccepted {
				t.Errorf("%d restored secrets, want %d", got, test.wantAccepted)
			}
			if d.record.Identity != "old" {
				t.Errorf("identity %q, want that of the backup", d.record.Identity)
			}
			// A restored secret that has ended never returns, even if the change is undone.
			if test.wantAccepted == 0 {
				undone, _ := adopted(t)
				undone.read(afterWrite(t, seen, d).record)
				undone.restore.secret.UID = d.record.Restored.From
				if got := restoredCount(mustDecide(t, undone).record.Restored); got != 0 {
					t.Errorf("%d restored secrets returned", got)
				}
			}
		})
	}
}

func emptied(t *testing.T, uid types.UID) *corev1.Secret {
	t.Helper()
	secret, _ := restorable(t, uid, func(c *record.RestoredClient) { c.Identity, c.Secrets = "even older", nil })
	return secret
}

// Tokens that were revoked before the backup stay revoked, even if the spec no longer says so.
func TestDecideKeepsRestoredRevocation(t *testing.T) {
	seen, _ := adopted(t)
	want := backupTime.Add(-time.Hour)
	if got := mustDecide(t, seen).record.TokensValidAfter; !got.Equal(want) {
		t.Errorf("tokensValidAfter %s, want that of the backup, %s", got, want)
	}
	seen.client.Spec.TokensValidAfter = &metav1.Time{Time: now}
	if got := mustDecide(t, seen).record.TokensValidAfter; !got.Equal(now) {
		t.Errorf("tokensValidAfter %s, want the later one in the spec, %s", got, now)
	}
	// An older backup that is restored later doesn't make them valid again.
	seen.client.Spec.TokensValidAfter = nil
	older, _ := restorable(t, "s2", func(c *record.RestoredClient) { c.TokensValidAfter = want.Add(-time.Hour) })
	d := mustDecide(t, withRestore(t, seen, older))
	if got := d.record.TokensValidAfter; !d.adopts || !got.Equal(want) {
		t.Errorf("adopts %t, tokensValidAfter %s, want that of the first backup, %s", d.adopts, got, want)
	}
}

// A credentials Secret of the backup belongs to the restored client, and to no other.
func TestDecideTakesOverCredentials(t *testing.T) {
	restore, plaintext := restorable(t, "s1")
	credentials := func(owner types.UID, name string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "billing", Labels: map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretGenerated},
		}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{v1alpha1.SecretKeyClientSecret: []byte(plaintext)}}
		if owner != "" {
			s.OwnerReferences = []metav1.OwnerReference{{Kind: "ApiClient", Name: name, UID: owner, Controller: new(true)}}
		}
		return s
	}
	unlabeled := credentials("", "")
	unlabeled.Labels = nil
	for name, test := range map[string]struct {
		secret *corev1.Secret
		want   bool
	}{
		"without an owner":            {credentials("", ""), true},
		"of the deleted ApiClient":    {credentials("c0", "billing"), true},
		"of another ApiClient":        {credentials("c2", "other"), false},
		"of this ApiClient":           {credentials("c1", "billing"), false},
		"not labeled as a credential": {unlabeled, false},
	} {
		t.Run(name, func(t *testing.T) {
			seen := withRestore(t, observe(), restore)
			if got := mayBeAbandoned(test.secret, seen.client); got != test.want {
				t.Fatalf("may be abandoned: %t, want %t", got, test.want)
			}
			if !test.want {
				return
			}
			seen.credentials, seen.abandoned = test.secret, true
			d := mustDecide(t, seen)
			if len(d.record.Secrets) != 1 || d.record.Secrets[0].ID != "restored" || len(d.record.Restored.Secrets) != 0 {
				t.Errorf("record %+v, want the restored secret as the client's own", d.record)
			}
			if d.credentials == nil || string(d.credentials.Data[v1alpha1.SecretKeyClientSecret]) != plaintext {
				t.Error("the credentials Secret does not keep the secret")
			}
		})
	}
	seen := withRestore(t, observe(), restore)
	seen.credentials = credentials("c0", "billing")
	if d := mustDecide(t, seen); d.record != nil || d.accepted.Reason != v1alpha1.ReasonSecretConflict {
		t.Errorf("a Secret that was not read is taken over: %+v", d.accepted)
	}
}

// The garbage collector can delete an abandoned credentials Secret until the client takes it over. The
// record must not make its secret the client's own before, because it would end with the Secret.
func TestTakeOverPrecedesRecord(t *testing.T) {
	restore, plaintext := restorable(t, "s1")
	seen := withRestore(t, observe(), adoptedBy(restore, "r1/c1"))
	seen.credentials, seen.abandoned = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "billing", OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "billing", UID: "c0"}}},
		Data:       map[string][]byte{v1alpha1.SecretKeyClientSecret: []byte(plaintext)}, Type: corev1.SecretTypeOpaque,
	}, true
	d := mustDecide(t, seen)
	if len(d.record.Secrets) != 1 || d.record.Secrets[0].ID != "restored" {
		t.Fatalf("the record has the secrets %+v, want the restored one", d.record.Secrets)
	}
	r := &Reconciler{Client: collected{}} // without a store: writing the record would panic
	done, err := r.apply(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(seen.client)}, seen, d)
	if !apply.IsStale(err) || done.recorded {
		t.Errorf("recorded %t, %v, want a conflict", done.recorded, err)
	}
}

// collected is a client for a Secret that the garbage collector has deleted.
type collected struct{ client.Client }

func (collected) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return apierrors.NewNotFound(corev1.Resource("secrets"), obj.GetName())
}

func TestRestoredMessageNamesSecrets(t *testing.T) {
	seen, _ := adopted(t)
	message := restored(&seen, mustDecide(t, seen).record.Restored).Message
	for _, want := range []string{timestamp(backupTime), timestamp(now), "restored", "restore --finish", "revoke apiclient/billing -n team"} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q does not contain %q", message, want)
		}
	}
}

func TestRestoreRecordIsOrphaned(t *testing.T) {
	secret, _ := restorable(t, "s1")
	for name, test := range map[string]struct {
		adopter       string
		uid, realmUID types.UID
		want          bool
	}{
		"not adopted, no client yet": {"", "", "", false},
		"not adopted":                {"", "c1", "r1", false},
		"adopted":                    {"r1/c1", "c1", "r1", false},
		"client deleted":             {"r1/c1", "", "", true},
		"client recreated":           {"r1/c1", "c2", "r1", true},
		"realm deleted":              {"r1/c1", "c1", "", true},
		"realm recreated":            {"r1/c1", "c1", "r2", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := secret
			if test.adopter != "" {
				s = adoptedBy(secret, test.adopter)
			}
			if got := orphaned(test.uid, test.realmUID)(s); got != test.want {
				t.Errorf("orphaned: %t, want %t", got, test.want)
			}
		})
	}
}

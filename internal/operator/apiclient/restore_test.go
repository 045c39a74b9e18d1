package apiclient

import (
	"crypto/rand"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

// backupTime is the time of the backup in all tests.
var backupTime = now.Add(-24 * time.Hour)

func restoredCount(r *record.Restored) int {
	if r == nil {
		return 0
	}
	return len(r.Secrets)
}

func withKey(seen *observed) {
	seen.client.Spec.Secret = nil
	seen.client.Spec.Identities = []v1beta1.Identity{account("billing")}
	seen.accounts = map[string]types.UID{"billing": "1"}
}

// putBack returns the state of a client whose record was put back from a backup, and its secret in the
// backup: the record is disabled, and has the identity "old" and no other secret.
func putBack(t *testing.T) (observed, string) {
	t.Helper()
	plaintext := testkit.Value(clientsecret.Generate(rand.Reader))(t)
	verifier := testkit.Value(clientsecret.Hash(plaintext, rand.Reader))(t)
	seen := observe()
	desired := testkit.Value(recordsecret.ForClient("records", record.Client{
		UID: "c1", Namespace: "team", Name: "billing", RealmUID: "r1", RealmName: "acme", ClientID: "team.billing", Identity: "old",
		Disabled: true, Audiences: []string{"x"}, Secrets: []record.ClientSecret{}, TokensValidAfter: backupTime.Add(-time.Hour),
		Restored: &record.Restored{
			BackupTime: backupTime, At: now, TokensValidAfter: backupTime.Add(-time.Hour),
			Secrets: []record.ClientSecret{{ID: "restored", CreatedAt: backupTime, Hash: verifier.String()}},
		},
	}))(t)
	secret := testkit.Value(apply.Convert[corev1.Secret](desired))(t)
	seen.setRecord(secret)
	return seen, plaintext
}

// reconciledRestore returns the state of a client that was restored, after the operator has reconciled it.
func reconciledRestore(t *testing.T) (observed, string) {
	t.Helper()
	seen, plaintext := putBack(t)
	return afterWrite(t, seen, mustDecide(t, seen)), plaintext
}

func TestDecideEndsRestoredSecrets(t *testing.T) {
	revoke := func(s *observed) { s.client.Spec.TokensValidAfterTime = &metav1.Time{Time: now} }
	rotate := func(s *observed) {
		s.client.Spec.Secret.Generated.Rotation.RotationRequestTime = &metav1.Time{Time: now.Add(time.Second)}
		if d := step(t, s, now.Add(time.Second)); nextSecret(s) == "" || len(d.desired.Secrets) != 2 {
			t.Fatalf("the rotation has not begun: %+v", d.desired)
		}
	}
	listHash := withHashes(hashOf(t, "listed", password))
	for name, test := range map[string]struct {
		change       func(*observed)
		wantAccepted int
	}{
		"credentials Secret lost":    {func(s *observed) { s.credentials = nil }, 1},
		"tokens revoked":             {revoke, 0},
		"revoked before the restore": {func(s *observed) { s.client.Spec.TokensValidAfterTime = &metav1.Time{Time: now.Add(-time.Second)} }, 1},
		"revocation of the backup":   {func(s *observed) { s.recorded.Restored.TokensValidAfter = now; revoke(s) }, 1},
		"revoked during a rotation":  {func(s *observed) { rotate(s); revoke(s); s.credentials = nil }, 0},
		"hashed secret":              {listHash, 0},
		"revoked and rejected":       {func(s *observed) { s.client.Spec.Scopes = []string{"unknown"}; revoke(s) }, 0},
		"no secret in the spec":      {withKey, 0},
		"expired":                    {func(s *observed) { s.recorded.Restored.Secrets[0].ExpiresAt = now }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			seen, _ := reconciledRestore(t)
			test.change(&seen)
			hashProvided(t, &seen)
			d := mustDecide(t, seen)
			if got := restoredCount(d.desired.Restored); got != test.wantAccepted {
				t.Errorf("%d restored secrets, want %d", got, test.wantAccepted)
			}
			if d.desired.Identity != "old" {
				t.Errorf("identity %q, want that of the backup", d.desired.Identity)
			}
			// A restored secret that has ended never returns, even if the change is undone.
			if test.wantAccepted == 0 {
				undone, _ := reconciledRestore(t)
				undone.setRecord(afterWrite(t, seen, d).recordSecret)
				if got := restoredCount(mustDecide(t, undone).desired.Restored); got != 0 {
					t.Errorf("%d restored secrets returned", got)
				}
			}
		})
	}
}

// Tokens that were revoked before the backup stay revoked, even if the spec no longer says so.
func TestDecideKeepsRestoredRevocation(t *testing.T) {
	seen, _ := reconciledRestore(t)
	want := backupTime.Add(-time.Hour)
	if got := mustDecide(t, seen).desired.TokensValidAfter; !got.Equal(want) {
		t.Errorf("tokensValidAfterTime %s, want that of the backup, %s", got, want)
	}
	seen.client.Spec.TokensValidAfterTime = &metav1.Time{Time: now}
	if got := mustDecide(t, seen).desired.TokensValidAfter; !got.Equal(now) {
		t.Errorf("tokensValidAfterTime %s, want the later one in the spec, %s", got, now)
	}
}

// A client with a record of a backup is enabled as its spec says, gets a secret of its own, and accepts
// that of the backup with the identity that it had.
func TestDecideAfterRestore(t *testing.T) {
	seen, _ := putBack(t)
	d := mustDecide(t, seen)
	if r := d.desired; r.Disabled || r.Identity != "old" || len(r.Secrets) != 1 || restoredCount(r.Restored) != 1 {
		t.Errorf("the record is %+v, want one that is enabled with identity \"old\", one secret, and one of the backup", r)
	}
	if c := restored(&seen, d.desired.Restored); c == nil || c.Reason != v1beta1.ReasonRestoredFromBackup {
		t.Errorf("the condition Restored is %+v", c)
	}
	suspended, _ := putBack(t)
	suspended.client.Spec.Suspend = true
	if d := mustDecide(t, suspended); !d.desired.Disabled {
		t.Error("a suspended client is enabled")
	}
}

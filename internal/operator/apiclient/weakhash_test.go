package apiclient

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

const (
	pbkdf2Hash = "$pbkdf2-sha256$i=25000,l=32$CABI/y5hPsdrC8hIVzOUWA$iE55mgmaFgVqcSWmP/u+VvKmN93XQOh0S5iPX5KvmM8"
	bcryptHash = "$2b$10$Io1.7xr5VRC/AFN7flWJ2.QE5xw9/5pe8/UCvfII2V36dbQ9UyxXG"
)

// conditionsOf returns the conditions after everything in the decision was written, or nothing if
// the write failed.
func conditionsOf(t *testing.T, seen observed, written bool, now time.Time) []metav1.Condition {
	t.Helper()
	d := decided(t, &seen, now)
	done := outcome{written: d.desired != nil && written}
	if state := acknowledgement.Acknowledged; done.written {
		done.state = &state
	}
	return status(&seen, d, done).Conditions
}

func argon2id(t *testing.T, id string) v1beta1.HashedSecret {
	t.Helper()
	verifier := testkit.Value(clientsecret.HashArgon2id(password, rand.Reader))(t)
	return v1beta1.HashedSecret{ID: id, Hash: verifier.String()}
}

// The condition names the secrets with a weak hash. It does not affect Ready.
func TestWeaklyHashed(t *testing.T) {
	pbkdf2, bcrypt := v1beta1.HashedSecret{ID: "from-hydra", Hash: pbkdf2Hash}, v1beta1.HashedSecret{ID: "from-authelia", Hash: bcryptHash}
	strong := argon2id(t, "strong")
	expired := pbkdf2
	expired.ExpirationTime = &metav1.Time{Time: now}
	for name, test := range map[string]struct {
		change func(*observed)
		want   string // the secrets in the message; empty if there is no condition
	}{
		"PBKDF2 and bcrypt": {withHashes(pbkdf2, bcrypt), "from-hydra, from-authelia"},
		"expired":           {withHashes(strong, expired), ""},
		"suspended":         {func(s *observed) { withHashes(pbkdf2)(s); s.client.Spec.Suspend = true }, "from-hydra"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(test.change)
			seen.realm.Status.Conditions = []metav1.Condition{{Type: string(v1beta1.ConditionReady), Status: metav1.ConditionTrue}}
			hashProvided(t, &seen)
			conditions := conditionsOf(t, seen, true, now)
			weak := meta.FindStatusCondition(conditions, string(v1beta1.ConditionWeaklyHashed))
			switch {
			case test.want == "":
				if weak != nil {
					t.Errorf("unexpected condition %+v", weak)
				}
			case weak == nil || weak.Status != metav1.ConditionTrue || weak.Reason != string(v1beta1.ReasonImportedHash) || !strings.Contains(weak.Message, ": "+test.want+". "):
				t.Errorf("condition %+v, want one that names %s", weak, test.want)
			}
			if ready := meta.IsStatusConditionTrue(conditions, string(v1beta1.ConditionReady)); ready == seen.client.Spec.Suspend {
				t.Errorf("Ready %t", ready)
			}
		})
	}
}

// The condition describes the record: it appears when the record is written, and remains until the
// weak hash is no longer valid.
func TestWeaklyHashedFollowsRecord(t *testing.T) {
	isWeak := func(seen observed, written bool, at time.Time) bool {
		t.Helper()
		return meta.IsStatusConditionTrue(conditionsOf(t, seen, written, at), string(v1beta1.ConditionWeaklyHashed))
	}
	seen := observe(withHashes(v1beta1.HashedSecret{ID: "from-hydra", Hash: pbkdf2Hash}))
	if isWeak(seen, false, now) {
		t.Error("weak although no record was written")
	}
	step(t, &seen, now)
	withHashes(argon2id(t, "strong"))(&seen)
	if !isWeak(seen, false, now) {
		t.Error("not weak although the record with a weak hash was not replaced")
	}
	if isWeak(seen, true, now) {
		t.Error("weak although the record was replaced")
	}

	// A client that is no longer Accepted keeps its record, and gets tokens again once it is.
	withHashes(v1beta1.HashedSecret{ID: "unsupported", Hash: "$a"})(&seen)
	if !isWeak(seen, true, now) {
		t.Error("not weak although the record of a rejected client has a weak hash")
	}
}

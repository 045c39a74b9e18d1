package apiclient

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
)

// rotating returns the observed state of a client whose provided secret has changed and is not
// hashed yet.
func rotating(t *testing.T) observed {
	t.Helper()
	seen := observe(withProvided(0))
	seen.provided = providedVersionOf(1, password)
	step(t, &seen, now)
	seen.provided, seen.value, seen.unhashed = providedVersionOf(2, newPassword), providedsecrets.Result{}, true
	return seen
}

func mustDecide(t *testing.T, seen observed) decision {
	t.Helper()
	_, d := settled(t, seen, now)
	return d
}

// While a new value is hashed, the client keeps its secrets, and every other change takes effect.
func TestChangesDoNotWaitForHash(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.ApiClientSpec){
		"suspended":           func(s *v1beta1.ApiClientSpec) { s.Suspend = true },
		"scopes were changed": func(s *v1beta1.ApiClientSpec) { s.Scopes = []string{"read"} },
	} {
		t.Run(name, func(t *testing.T) {
			seen := rotating(t)
			before := seen.recorded
			change(&seen.client.Spec)
			d := mustDecide(t, seen)
			if !d.waitsForHash || d.desired == nil {
				t.Fatalf("hash %t, record %+v", d.waitsForHash, d.desired)
			}
			testkit.Diff(t, "secrets", before.Secrets, d.desired.Secrets)
			want := newRecord(&seen, covered(&seen.request), secrets.Plan{Secrets: before.Secrets})
			want.Basis = d.desired.Basis
			testkit.Diff(t, "record", want, d.desired)
		})
	}
}

// A disabled client stays so until the current value is checked.
func TestHashingEnablesNoClient(t *testing.T) {
	seen := rotating(t)
	seen.recorded.Disabled = true
	if d := mustDecide(t, seen); d.desired == nil || !d.desired.Disabled || !d.waitsForHash {
		t.Errorf("a disabled client: hash %t, record %+v", d.waitsForHash, d.desired)
	}
}

// A client that is rejected for another reason causes no slow hash.
func TestRejectedClientIsNotHashed(t *testing.T) {
	seen := rotating(t)
	seen.realm.Spec.Grants = nil
	if d := mustDecide(t, seen); d.waitsForHash {
		t.Errorf("a client that no grant covers is hashed: %+v", d.accepted)
	}
}

func TestStatusWhileHashing(t *testing.T) {
	seen := rotating(t)
	s := status(&seen, mustDecide(t, seen), outcome{written: true, state: new(acknowledgement.Acknowledged)})
	for _, kind := range []v1beta1.ConditionType{v1beta1.ConditionProgrammed, v1beta1.ConditionReady} {
		if c := meta.FindStatusCondition(s.Conditions, string(kind)); c.Reason != string(v1beta1.ReasonProgressing) {
			t.Errorf("%s is %+v", kind, c)
		}
	}

	first := observe(withProvided(0))
	first.provided, first.unhashed = providedVersionOf(1, password), true
	if d := mustDecide(t, first); d.desired != nil || !d.waitsForHash {
		t.Errorf("before the first hash: hash %t, record %+v", d.waitsForHash, d.desired)
	}
}

package apiclient

import (
	"crypto/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// withAccounts makes the given accounts the only way in which the client authenticates. Accounts with
// a UID exist.
func withAccounts(uids map[string]types.UID, names ...string) func(*observed) {
	return func(seen *observed) {
		seen.accounts, seen.client.Spec.Secret = uids, nil
		for _, name := range names {
			seen.client.Spec.ServiceAccounts = append(seen.client.Spec.ServiceAccounts, v1alpha1.ServiceAccountReference{Name: name})
		}
	}
}

// The record contains the existing accounts with their UIDs, sorted by name, and no secret.
func TestDecideWithServiceAccounts(t *testing.T) {
	seen := observe(withAccounts(map[string]types.UID{"b": "2", "a": "1"}, "b", "missing", "a"))
	d := testkit.Value(decide(&seen, now, rand.Reader))(t)
	want := []record.ServiceAccount{{Namespace: "team", Name: "a", UID: "1"}, {Namespace: "team", Name: "b", UID: "2"}}
	if diff := cmp.Diff(want, d.record.ServiceAccounts); diff != "" || len(d.record.Secrets) != 0 || d.credentials != nil {
		t.Errorf("secrets %v, credentials Secret %v, accounts (-want +got):\n%s", d.record.Secrets, d.credentials, diff)
	}
}

// A client is not Accepted, and its record is disabled, if none of its service accounts exists and
// it has no other way to authenticate.
func TestMissingServiceAccounts(t *testing.T) {
	generated := func(s *observed) {
		s.client.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{}}
	}
	missing := withAccounts(nil, "b", "a")
	const allowed = `The spec is valid, and grant "all" of Realm "acme" allows the client.`
	for name, tc := range map[string]struct {
		change      []func(*observed)
		wantReason  v1alpha1.ConditionReason
		wantMessage string
	}{
		"none exists": {
			[]func(*observed){missing},
			v1alpha1.ReasonServiceAccountNotFound,
			"None of the service accounts in spec.serviceAccounts and spec.federatedIdentities exists: a, b. Create one in this namespace; the client is then reconciled automatically.",
		},
		"one exists": {
			[]func(*observed){withAccounts(map[string]types.UID{"a": "1"}, "b", "a")},
			v1alpha1.ReasonAccepted,
			allowed + " These service accounts do not exist yet: b.",
		},
		"all exist": {
			[]func(*observed){withAccounts(map[string]types.UID{"a": "1", "b": "2"}, "b", "a")},
			v1alpha1.ReasonAccepted, allowed,
		},
		"none exists, with a public key": {
			[]func(*observed){missing, withKeys(onP256)},
			v1alpha1.ReasonAccepted,
			allowed + " These service accounts do not exist yet: a, b.",
		},
		"none exists, with a secret": {
			[]func(*observed){missing, generated},
			v1alpha1.ReasonAccepted,
			allowed + " These service accounts do not exist yet: a, b.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(new(observe(tc.change...)))
			if got.Reason != tc.wantReason || got.Message != tc.wantMessage || (got.Status == metav1.ConditionTrue) != (tc.wantReason == v1alpha1.ReasonAccepted) {
				t.Errorf("%s %s: %s", got.Status, got.Reason, got.Message)
			}
		})
	}

	seen := reconciled(t, observe(withAccounts(map[string]types.UID{"a": "1"}, "a")))
	seen.accounts = nil
	d, err := decide(&seen, now, rand.Reader)
	if err != nil || !d.record.Disabled {
		t.Errorf("after the last account is deleted: record %+v, error %v", d.record, err)
	}
}

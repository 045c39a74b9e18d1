package apiclient

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func instance() *config.Instance {
	return &config.Instance{
		InstanceDomain: "example.com", ExternalPort: 443, SystemNamespace: "system",
		Security: config.Security{DefaultTokenLifetime: metav1.Duration{Duration: time.Hour}},
		TLS:      config.TLS{Managed: &config.ManagedTLS{}},
	}
}

// seenAt returns what is observed of a client in a realm that allows all, changed by the
// given functions.
func seenAt(change ...func(*observed)) observed {
	c := v1alpha1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "billing", UID: "c1", Generation: 2, CreationTimestamp: metav1.NewTime(now)},
		Spec:       v1alpha1.ApiClientSpec{RealmRef: v1alpha1.RealmReference{Name: "acme"}},
	}
	seen := observed{
		client: &c,
		realm: &v1alpha1.Realm{
			ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "r1"},
			Spec: v1alpha1.RealmSpec{
				AllowedNamespaces: v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesFromAll},
				Scopes:            []string{"read"},
			},
		},
		sameClientID: []v1alpha1.ApiClient{c},
		authority:    []byte("PEM"),
	}
	for _, f := range change {
		f(&seen)
	}
	return seen
}

// settled returns what is observed once a decision on seen has been applied.
func settled(t *testing.T, seen observed) observed {
	t.Helper()
	d, err := decide(seen, instance(), now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, seen, d)
}

// written returns what is observed once a decision on seen has been written.
func written(t *testing.T, seen observed, d decision) observed {
	t.Helper()
	desired, err := record.ForClient("system", seen.client, *d.record)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := apply.Convert[corev1.Secret](desired)
	if err != nil {
		t.Fatal(err)
	}
	seen.read(secret)
	if d.credentials != nil {
		if seen.credentials, err = apply.Convert[corev1.Secret](d.credentials); err != nil {
			t.Fatal(err)
		}
	}
	return seen
}

// plaintext returns the secret in the consumer Secret that the record verifies.
func plaintext(seen *observed) string {
	f := secretFacts(seen)
	f.Recorded = seen.current.Secrets
	return secrets.Look(f, time.Time{}).Plaintext
}

// What decides whether the secret stays is whether the consumer Secret holds what the
// record verifies, for this identity of client and realm.
func TestDecideKeepsOrMakesTheSecret(t *testing.T) {
	for name, test := range map[string]struct {
		disturb  func(*observed)
		wantKept bool
	}{
		"nothing changed":      {func(*observed) {}, true},
		"keys renamed":         {func(s *observed) { rename(s) }, true},
		"suspended":            {func(s *observed) { s.client.Spec.Suspend = true }, true},
		"consumer Secret gone": {func(s *observed) { s.credentials = nil }, false},
		"record gone":          {func(s *observed) { s.read(nil) }, false},
		"secret overwritten":   {func(s *observed) { s.credentials.Data["client_secret"] = []byte("guessable") }, false},
		"realm recreated":      {func(s *observed) { s.realm.UID = "r2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			seen := settled(t, seenAt())
			before := plaintext(&seen)
			test.disturb(&seen)
			d, err := decide(seen, instance(), now, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			consumer, err := apply.Convert[corev1.Secret](d.credentials)
			if err != nil {
				t.Fatal(err)
			}
			secret := string(consumer.Data[seen.client.GeneratedSecret().DataKey(v1alpha1.SecretKeyClientSecret)])
			if kept := secret == before; kept != test.wantKept {
				t.Errorf("the secret is kept: %t, want %t", kept, test.wantKept)
			}
			if !clientsecret.WellFormed(secret) || !verifiesAny(d.record.Secrets, secret) {
				t.Error("the consumer Secret doesn't hold a secret that the record verifies")
			}
		})
	}
}

func rename(seen *observed) {
	seen.client.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{
		Keys: map[string]v1alpha1.SecretDataKey{v1alpha1.SecretKeyClientSecret: "PASSWORD"},
	}}
}

// A client that isn't accepted loses nothing: its record stays and is switched off.
func TestDecideSwitchesOffWhatIsNotAccepted(t *testing.T) {
	seen := settled(t, seenAt())
	before, err := record.ReadClient(seen.record)
	if err != nil {
		t.Fatal(err)
	}
	seen.client.Spec.Scopes = []string{"write"}
	d, err := decide(seen, instance(), now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	before.Disabled = true
	if diff := cmp.Diff(&before, d.record); diff != "" || d.credentials != nil {
		t.Errorf("record (-want +got):\n%s\nconsumer Secret: %v, want none", diff, d.credentials)
	}

	d, err = decide(seenAt(func(s *observed) { s.realm = nil }), instance(), now, rand.Reader)
	if err != nil || d.record != nil || d.credentials != nil {
		t.Errorf("a client that never was accepted gets record %v, consumer Secret %v, error %v", d.record, d.credentials, err)
	}
}

// While the consumer Secret can't be written, each try hands out the same secret: another
// record each time would be a storm for all token servers.
func TestDecideTriesAgainWithTheSameSecret(t *testing.T) {
	seen := seenAt()
	first := settled(t, seen)
	d, err := decide(first, instance(), now, rand.Reader)
	if err != nil || d.plan.Pending != "" {
		t.Errorf("a secret that is handed out counts as unclaimed, error %v", err)
	}

	first.pending, first.credentials = plaintext(&first), nil
	d, err = decide(first, instance(), now.Add(time.Minute), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	before, err := record.ReadClient(first.record)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&before, d.record); diff != "" || d.plan.Pending != first.pending {
		t.Errorf("the second try makes another secret (-first +second):\n%s", diff)
	}
}

// A Secret that a deleted ApiClient of the same name left is not this one's.
func TestNamesakesSecretIsForeign(t *testing.T) {
	seen := settled(t, seenAt())
	seen.client.UID = "c2"
	seen.read(nil)
	if got := accepted(seen, instance()); got.Reason != v1alpha1.ReasonSecretConflict {
		t.Errorf("the reason is %s, want SecretConflict", got.Reason)
	}
}

// Nothing is handed out before consumers can be told whom to trust.
func TestDecideWaitsForTheAuthority(t *testing.T) {
	d, err := decide(seenAt(func(s *observed) { s.authority, s.authorityMissing = nil, true }), instance(), now, rand.Reader)
	if err != nil || d.record != nil || d.credentials != nil || d.blocked == nil || d.blocked.Reason != v1alpha1.ReasonProgressing {
		t.Errorf("decision %+v, error %v", d, err)
	}

	// But what was handed out before is not held back, least of all a suspension.
	seen := settled(t, seenAt())
	seen.authority, seen.authorityMissing = nil, true
	seen.client.Spec.Suspend = true
	d, err = decide(seen, instance(), now, rand.Reader)
	if err != nil || d.blocked != nil || d.record == nil || !d.record.Disabled || d.credentials != nil {
		t.Errorf("without the CA a suspension leads to %+v, error %v", d, err)
	}
}

func TestConsumerSecretHoldsAllThatIsNeeded(t *testing.T) {
	seen := settled(t, seenAt(func(s *observed) { s.client.Spec.Scopes = []string{"read"} }))
	got := map[string]string{}
	for key, value := range seen.credentials.Data {
		got[key] = string(value)
	}
	want := map[string]string{
		"client_id": "team.billing", "client_secret": plaintext(&seen), "scope": "read", "ca.crt": "PEM",
		"issuer":            "https://api.example.com/acme",
		"token_url":         "https://api.example.com/acme/oauth2/token",
		"jwks_url":          "https://api.example.com/acme/oauth2/jwks",
		"cluster_token_url": "https://realmkeeper-token-server.system.svc/acme/oauth2/token",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func verifiesAny(recorded []record.ClientSecret, candidate string) bool {
	return slices.ContainsFunc(recorded, func(s record.ClientSecret) bool {
		verifier, err := clientsecret.ParseVerifier(s.Hash)
		return err == nil && verifier.Verify(candidate)
	})
}

func stillValid(recorded []record.ClientSecret, at time.Time) []record.ClientSecret {
	return secrets.Look(secrets.Facts{Recorded: recorded}, at).Valid
}

// A client that gets its client id from another, which had it first, has it from then on, and
// not since its own creation: else the other's tokens would be taken for its own.
func TestDecideTellsSinceWhenTheClientIDIsIts(t *testing.T) {
	later := now.Add(time.Hour)
	since := func(seen observed, at time.Time) (observed, time.Time) {
		t.Helper()
		d, err := decide(seen, instance(), at, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return written(t, seen, d), d.record.CreatedAt
	}
	if _, got := since(seenAt(), later); !got.Equal(now) {
		t.Errorf("a client that had it first has it since %v, want its creation %v", got, now)
	}
	seen := seenAt(func(s *observed) {
		s.client.Status.Conditions = []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionFalse, Reason: string(v1alpha1.ReasonClientIDConflict)}}
	})
	seen, got := since(seen, later)
	if !got.Equal(later) {
		t.Errorf("one that moves up has it since %v, want %v", got, later)
	}
	seen.client.Status.Conditions = nil
	if _, got := since(seen, later.Add(time.Hour)); !got.Equal(later) {
		t.Errorf("and then since %v, want %v still", got, later)
	}
}

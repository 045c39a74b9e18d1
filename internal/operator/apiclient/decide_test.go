package apiclient

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func instance() *config.Instance {
	return &config.Instance{
		InstanceDomain: "example.com", ExternalPort: 443, SystemNamespace: "system", RecordsNamespace: "records",
		Security: config.Security{DefaultTokenLifetime: metav1.Duration{Duration: time.Hour}},
		TLS:      config.TLS{Managed: &config.ManagedTLS{}},
		Usage:    config.Usage{Resolution: metav1.Duration{Duration: time.Hour}},
		Testing:  config.Testing{SpeedUp: 1},
	}
}

// observe returns the observed state of a client with a generated secret in a Realm whose grant
// allows everything except explicit client IDs, with the given changes applied.
func observe(change ...func(*observed)) observed {
	c := v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "billing", UID: "c1", Generation: 2, CreationTimestamp: metav1.NewTime(now)},
		Spec: v1beta1.ApiClientSpec{
			RealmRef: v1beta1.RealmReference{Name: "acme"},
			Secret:   &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}},
		},
	}
	seen := observed{live: true, delivery: delivery{caBundle: []byte("PEM")}, request: request{
		instance: instance(), at: now,
		client: &c,
		realm: &v1beta1.Realm{
			ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "r1"},
			Spec: v1beta1.RealmSpec{
				Scopes: []string{"read"},
				Grants: []v1beta1.Grant{{Name: "all", Namespaces: v1beta1.GrantedNamespaces{From: v1beta1.NamespacesFromAll}, Scopes: v1beta1.GrantedScopes{"*"}, Audiences: v1beta1.GrantedAudiences{"*"}, Issuers: []string{"*"}}},
			},
		},
	}}
	for _, f := range change {
		f(&seen)
	}
	return seen
}

// reconciled decides on seen and returns the observed state after the decision is written.
func reconciled(t *testing.T, seen observed) observed {
	t.Helper()
	seen, d := settled(t, seen, now)
	return afterWrite(t, seen, d)
}

// settled writes decisions on seen until no step of the client's secret follows, and returns the last
// decision before it is written.
func settled(t *testing.T, seen observed, at time.Time) (observed, decision) {
	t.Helper()
	for range maxRounds {
		d := testkit.Value(decide(&seen, at, rand.Reader))(t)
		switch {
		case d.lacks != 0:
			fetched(t, &seen, d.lacks)
		case !d.plan.Unfinished:
			return seen, d
		default:
			seen = afterWrite(t, seen, d)
			seen.nextStep()
		}
	}
	t.Fatalf("the client is not settled after %d decisions", maxRounds)
	return seen, decision{}
}

// decided decides on seen with what the decision lacks.
func decided(t *testing.T, seen *observed, at time.Time) decision {
	t.Helper()
	d := testkit.Value(decide(seen, at, rand.Reader))(t)
	for d.lacks != 0 {
		fetched(t, seen, d.lacks)
		d = testkit.Value(decide(seen, at, rand.Reader))(t)
	}
	return d
}

// fetched adds what a decision lacks, as if nobody held what the client lists, the hash found no place, and the API
// server agreed with the caches.
func fetched(t *testing.T, seen *observed, what lacks) {
	t.Helper()
	if what&(lacksLive|lacksIndex) != 0 {
		t.Fatalf("the decision lacks %b", what)
	}
	for _, s := range seen.unknownSubjects() {
		put(&seen.freeSubjects, s, true)
	}
	for id, use := range seen.uses {
		use.Confirmed = true
		seen.uses[id] = use
	}
	seen.realmLive, seen.retentionKnown = true, true
	seen.recordLive = seen.recordLive || what&lacksRecord != 0
	seen.hashTried, seen.confirmed = seen.hashTried || what&lacksHash != 0, what&lacksConfirmation != 0
}

// afterWrite returns the observed state after the decision on seen is written.
func afterWrite(t *testing.T, seen observed, d decision) observed {
	t.Helper()
	if d.desired != nil && (seen.recordSecret != nil || d.credentials == nil || d.plan.Step != secrets.StepWriteFirst) {
		desired := testkit.Value(recordsecret.ForClient("system", *d.desired))(t)
		secret := testkit.Value(apply.Convert[corev1.Secret](desired))(t)
		secret.ResourceVersion = "1"
		if seen.recordSecret != nil {
			secret.ResourceVersion = seen.recordSecret.ResourceVersion
			if !bytes.Equal(secret.Data[record.DataKey], seen.recordSecret.Data[record.DataKey]) {
				secret.ResourceVersion += "0"
			}
		}
		seen.setRecord(secret)
	}
	if d.credentials != nil {
		seen.credentials = testkit.Value(apply.Secret(t.Context(), &server{}, nil, d.credentials))(t)
	}
	return seen
}

// deliveredSecret returns the value that the credentials Secret contains for workloads.
func deliveredSecret(seen *observed) string {
	if found := ownCredentials(seen); found != nil {
		return found.Current.Plaintext
	}
	return ""
}

func rename(seen *observed) {
	seen.client.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{
		Keys: map[string]v1beta1.SecretDataKey{v1beta1.SecretKeyClientSecret: "PASSWORD"},
	}}
}

// If a client is not Accepted, its record is kept but disabled.
func TestDecideDisablesRecordOfRejectedClient(t *testing.T) {
	seen := reconciled(t, observe())
	before := testkit.Value(record.ReadClient(seen.recordSecret))(t)
	seen.client.Spec.Scopes = []string{"write"}
	d, err := decide(&seen, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	before.Disabled = true
	if diff := cmp.Diff(&before, d.desired); diff != "" || d.credentials != nil {
		t.Errorf("record (-want +got):\n%s\ncredentials Secret: %v, want none", diff, d.credentials)
	}

	d, err = decide(new(observe(func(s *observed) { s.realm = nil })), now, rand.Reader)
	if err != nil || d.desired != nil || d.credentials != nil {
		t.Errorf("client that was never Accepted: record %v, credentials Secret %v, error %v", d.desired, d.credentials, err)
	}
}

// If another client holds the index of a rejected client, the rejected one gives it up. Otherwise, the entries of both
// would depend on each other.
func TestDecideDropsLostIndexOfRejectedClient(t *testing.T) {
	for name, tc := range map[string]struct {
		lost bool
		want *record.StatusIndex
	}{
		"held by another client": {lost: true},
		"held by the client":     {want: &record.StatusIndex{Index: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := reconciled(t, observe())
			seen.recorded.StatusIndex, seen.recorded.IndexSerial = &record.StatusIndex{Index: 3}, 2
			seen.index.Current, seen.index.CurrentLost = seen.recorded.StatusIndex, tc.lost
			seen.client.Spec.Scopes = []string{"write"}
			d := mustDecide(t, seen)
			testkit.Diff(t, "index", tc.want, d.desired.StatusIndex)
			testkit.Diff(t, "serial", int64(2), d.desired.IndexSerial)
		})
	}
}

// An operator that was rolled back keeps a restriction that it doesn't know, whatever it changes.
func TestDecideKeepsUnknownRestrictions(t *testing.T) {
	seen := reconciled(t, observe())
	later := record.Restrictions{"later": json.RawMessage("true")}
	seen.recorded.Restrictions = later
	for name, change := range map[string]func(*v1beta1.ApiClientSpec){
		"unchanged":    func(*v1beta1.ApiClientSpec) {},
		"suspended":    func(spec *v1beta1.ApiClientSpec) { spec.Suspend = true },
		"not Accepted": func(spec *v1beta1.ApiClientSpec) { spec.Scopes = []string{"write"} },
	} {
		changed := seen
		changed.client = seen.client.DeepCopy()
		change(&changed.client.Spec)
		testkit.Diff(t, name, later, mustDecide(t, changed).desired.Restrictions)
	}
}

// If the credentials Secret can't be written, everything else is.
func TestDecideWithoutCredentials(t *testing.T) {
	seen := observe(withKeys(onP256), func(s *observed) {
		s.client.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
		s.credentialsErr = errUnavailable
	})
	_, d := settled(t, seen, now)
	if d.credentials != nil || d.desired == nil || len(d.desired.Secrets) > 0 || len(d.desired.PublicKeys) != 1 {
		t.Errorf("decision %+v", d)
	}
}

// The credentials Secret of a deleted ApiClient with the same name is not owned by the new one.
func TestSecretOfDeletedClientConflicts(t *testing.T) {
	seen := reconciled(t, observe())
	seen.client.UID = "c2"
	seen.setRecord(nil)
	if got := accepted(&seen); got.Reason != v1beta1.ReasonSecretConflict {
		t.Errorf("reason %s, want SecretConflict", got.Reason)
	}
}

// A Secret in a cache doesn't disable a client that can get tokens: it may be one that was deleted.
func TestConflictInCacheDisablesNothing(t *testing.T) {
	for _, live := range []bool{false, true} {
		seen := reconciled(t, observe())
		seen.live = live
		seen.credentials.OwnerReferences = nil
		d, err := decide(&seen, now, rand.Reader)
		if err != nil || d.accepted.Reason != v1beta1.ReasonSecretConflict || (d.lacks != 0) == live || live != (d.desired != nil && d.desired.Disabled) {
			t.Errorf("live %t: reason %s, lacks %b, record %+v, error %v", live, d.accepted.Reason, d.lacks, d.desired, err)
		}
	}
}

// No secret is delivered before the certificate authority that clients must trust exists.
func TestDecideWaitsForCertificateAuthority(t *testing.T) {
	d, err := decide(new(observe(func(s *observed) { s.caBundle, s.caMissing = nil, true })), now, rand.Reader)
	if err != nil || d.desired != nil || d.credentials != nil || d.blocked == nil || d.blocked.Reason != v1beta1.ReasonProgressing {
		t.Errorf("decision %+v, error %v", d, err)
	}

	// Changes to a client that already has a secret, such as suspending it, are not delayed.
	seen := reconciled(t, observe())
	seen.caBundle, seen.caMissing = nil, true
	seen.client.Spec.Suspend = true
	d, err = decide(&seen, now, rand.Reader)
	if err != nil || d.blocked != nil || d.desired == nil || !d.desired.Disabled || d.credentials != nil {
		t.Errorf("suspension without the CA: %+v, error %v", d, err)
	}
}

func TestCredentialsSecretIsComplete(t *testing.T) {
	seen := reconciled(t, observe(func(s *observed) { s.client.Spec.Scopes = []string{"read"} }))
	got := map[string]string{}
	for key, value := range seen.credentials.Data {
		got[key] = string(value)
	}
	want := map[string]string{
		"client_id": "team.billing", "client_secret": deliveredSecret(&seen), "scope": "read", "ca.crt": "PEM",
		"issuer":            "https://api.example.com/acme",
		"token_url":         "https://api.example.com/acme/oauth2/token",
		"jwks_url":          "https://api.example.com/acme/oauth2/jwks",
		"cluster_token_url": "https://realmkeeper-token-server.system.svc/acme/oauth2/token",
	}
	testkit.Diff(t, "result", want, got)
}

func verifies(recorded []record.ClientSecret, candidate string) bool {
	return slices.ContainsFunc(recorded, func(s record.ClientSecret) bool {
		verifier, err := clientsecret.ParseVerifier(s.Hash)
		return err == nil && verifier.Verify(candidate)
	})
}

func unexpired(recorded []record.ClientSecret, at time.Time) []record.ClientSecret {
	return secrets.Valid(recorded, at)
}

// The record has the client's identity, and audiences that are never empty. An empty list must not
// mean every audience of the realm.
func TestDecideRecordsIdentityAndEffectiveAudiences(t *testing.T) {
	grant := func(audiences ...string) func(*observed) {
		return func(s *observed) {
			s.realm.Spec.Audiences = []string{"stock", "orders", "billing"}
			s.realm.Spec.Grants[0].Audiences = audiences
		}
	}
	for name, test := range map[string]struct {
		change []func(*observed)
		want   []string
	}{
		"realm without audiences":     {nil, []string{"https://api.example.com/acme"}},
		"realm with audiences":        {[]func(*observed){grant("*")}, []string{"billing", "orders", "stock"}},
		"grant with fewer":            {[]func(*observed){grant("orders", "billing", "unknown")}, []string{"billing", "orders"}},
		"client with fewer":           {[]func(*observed){grant("orders", "billing"), func(s *observed) { s.client.Spec.Audiences = []string{"orders"} }}, []string{"orders"}},
		"second grant is not added":   {[]func(*observed){grant("orders"), anotherGrant("stock")}, []string{"orders"}},
		"second grant covers the one": {[]func(*observed){grant("orders"), anotherGrant("stock"), func(s *observed) { s.client.Spec.Audiences = []string{"stock"} }}, []string{"stock"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := decide(new(observe(test.change...)), now, rand.Reader)
			if err != nil || d.desired == nil {
				t.Fatalf("decision %+v, error %v", d, err)
			}
			testkit.Diff(t, "audiences", test.want, d.desired.Audiences)
			if d.desired.UID != "c1" || d.desired.Identity != "c1" {
				t.Errorf("UID %q and identity %q, want c1", d.desired.UID, d.desired.Identity)
			}
		})
	}
}

func anotherGrant(audiences ...string) func(*observed) {
	return func(s *observed) {
		grant := s.realm.Spec.Grants[0].DeepCopy()
		if grant.Name = "another"; len(audiences) > 0 {
			grant.Audiences = audiences
		}
		s.realm.Spec.Grants = append(s.realm.Spec.Grants, *grant)
	}
}

// releasedAt returns a change that requests the release of the client at a time.
func releasedAt(at time.Time) func(*observed) {
	return func(s *observed) {
		s.client.Annotations = map[string]string{v1beta1.ReleaseAnnotation: at.Format(time.RFC3339)}
	}
}

// A client gives up its record, and with it its client ID, if the record was created up to the time of a
// release. A Realm releases only clients that no grant covers. The decision needs live reads.
func TestDecideRelease(t *testing.T) {
	created := now.Add(-time.Hour)
	byRealm := func(at time.Time) func(*observed) {
		return func(s *observed) {
			s.realm.Annotations = map[string]string{v1beta1.ReleaseAnnotation: at.Format(time.RFC3339)}
		}
	}
	uncovered := func(s *observed) {
		s.realm.Spec.Grants[0].Namespaces = v1beta1.GrantedNamespaces{Names: []string{"other"}}
	}
	damaged := func(s *observed) {
		s.recordSecret = s.recordSecret.DeepCopy()
		s.recordSecret.Data = nil
		s.setRecord(s.recordSecret)
	}
	for name, test := range map[string]struct {
		change []func(*observed)
		want   bool
	}{
		"none":                        {nil, false},
		"before the record":           {[]func(*observed){releasedAt(created.Add(-time.Second))}, false},
		"at the creation":             {[]func(*observed){releasedAt(created)}, true},
		"long ago, after the record":  {[]func(*observed){releasedAt(created.Add(time.Minute))}, true},
		"in the future":               {[]func(*observed){releasedAt(now.Add(time.Second))}, false},
		"unreadable record":           {[]func(*observed){releasedAt(now), damaged}, true},
		"without a grant":             {[]func(*observed){releasedAt(now), uncovered}, true},
		"by the Realm, granted":       {[]func(*observed){byRealm(now)}, false},
		"by the Realm, not granted":   {[]func(*observed){byRealm(now), uncovered}, true},
		"by the Realm, before":        {[]func(*observed){byRealm(created.Add(-time.Second)), uncovered}, false},
		"by the Realm, in the future": {[]func(*observed){byRealm(now.Add(time.Second)), uncovered}, false},
	} {
		t.Run(name, func(t *testing.T) {
			seen := reconciled(t, observe())
			seen.recordSecret.CreationTimestamp = metav1.NewTime(created)
			for _, f := range test.change {
				f(&seen)
			}
			for _, live := range []bool{false, true} {
				seen.live = live
				d, err := decide(&seen, now, rand.Reader)
				if err != nil || d.releaseID != test.want || (d.lacks == lacksLive) != (test.want && !live) {
					t.Errorf("live %t: release %t, lacks %b, error %v", live, d.releaseID, d.lacks, err)
				}
			}
		})
	}
}

// A cache of service accounts or provided Secrets that lags doesn't enable a disabled client: neither is in the
// basis of its record.
func TestDisabledClientIsEnabledByLiveReads(t *testing.T) {
	for _, live := range []bool{false, true} {
		seen := reconciled(t, observe(func(s *observed) { s.client.Spec.Suspend = true }))
		seen.client.Spec.Suspend, seen.live = false, live
		d, err := decide(&seen, now, rand.Reader)
		if err != nil || (d.lacks == lacksLive) == live || live && d.desired.Disabled {
			t.Errorf("live %t: lacks %b, error %v", live, d.lacks, err)
		}
	}
}

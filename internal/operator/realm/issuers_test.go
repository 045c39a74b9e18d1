package realm

import (
	"crypto/rand"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

const (
	discovered = "https://issuer.example.com"
	inline     = "https://kubernetes.default.svc.cluster.local"
)

// issuerKey returns a public key of a third party and the key set that contains it.
func issuerKey(t *testing.T) (signingkey.PublicKey, string) {
	t.Helper()
	key := testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
	return key.Public(), string(testkit.Value(signingkey.JWKS([]signingkey.PublicKey{key.Public()}))(t))
}

// trusting returns a Realm that trusts issuers.
func trusting(issuers ...v1beta1.TrustedIssuer) *v1beta1.Realm {
	return acme(func(r *v1beta1.Realm) { r.Spec.TrustedIssuers = issuers })
}

func decided(t *testing.T, seen observed) decision {
	t.Helper()
	return decidedAt(t, seen, now)
}

// The record contains what token servers need, with defaults and sorted.
func TestIssuersAreRecorded(t *testing.T) {
	key, set := issuerKey(t)
	fetchedKey, _ := issuerKey(t)
	ci := v1beta1.TrustedIssuer{Name: "github", Issuer: discovered, RequiredClaims: v1beta1.RequiredClaims{{Name: "repository_owner_id", Value: "4711"}}}
	edge := v1beta1.TrustedIssuer{Name: "edge", Issuer: inline, Audience: "https://api.example.com", Keys: v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(set)}}
	d := decided(t, observed{realm: trusting(ci, edge), fetched: map[string]trustedissuers.State{"github": {Keys: []signingkey.PublicKey{fetchedKey}}}})
	want := []record.Issuer{
		{Name: "edge", Issuer: inline, Authenticates: true, Audience: "https://api.example.com", Keys: []signingkey.PublicKey{key}, Source: sourceOf(&edge)},
		{Name: "github", Issuer: discovered, Authenticates: true, Audience: "https://api.example.com/acme", RequiredClaims: map[string]string{"repository_owner_id": "4711"}, Keys: []signingkey.PublicKey{fetchedKey}, Source: sourceOf(&ci)},
	}
	testkit.Diff(t, "result", want, d.record.Issuers, cmp.Comparer(signingkey.PublicKey.Equal))
	// Keys in the spec are not fetched.
	testkit.Diff(t, "fetched issuers", []trustedissuers.Issuer{{Name: "github", URL: discovered, Source: sourceOf(&ci), HaveKeys: true}}, d.fetchIssuers, cmpopts.EquateEmpty())
	if _, err := record.ReadRealm(written(t, trusting(ci, edge), d)); err != nil {
		t.Errorf("the record can't be read: %v", err)
	}
}

// selfSigned returns the certificate of a certificate authority.
func selfSigned(t *testing.T) v1beta1.IssuerCABundle {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return v1beta1.IssuerCABundle(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// The record contains what DPoP proofs and the metadata of protected resources need.
func TestURLsAndAudiencesAreRecorded(t *testing.T) {
	realm := acme(func(r *v1beta1.Realm) {
		r.Spec.Audiences = v1beta1.Audiences{"https://b.example.com", "https://a.example.com"}
	})
	settings := instance()
	settings.SystemNamespace = "system"
	d := testkit.Value(decide(&observed{realm: realm, live: true}, settings, now, rand.Reader))(t)
	if want := "https://realmkeeper-token-server.system.svc/acme"; d.record.ClusterIssuerURL != want {
		t.Errorf("URL inside the cluster %s, want %s", d.record.ClusterIssuerURL, want)
	}
	testkit.Diff(t, "audiences", []string{"https://a.example.com", "https://b.example.com"}, d.record.Audiences)
}

// Keys in the record stay in use until keys are fetched, but only if they come from the same source.
func TestRecordedKeysBelongToSource(t *testing.T) {
	key, set := issuerKey(t)
	newer, _ := issuerKey(t)
	original := v1beta1.TrustedIssuer{Name: "edge", Issuer: discovered, Keys: v1beta1.IssuerKeys{JWKSURI: "https://issuer.example.com/keys"}}
	with := func(change func(*v1beta1.TrustedIssuer)) v1beta1.TrustedIssuer {
		changed := original
		change(&changed)
		return changed
	}
	before := written(t, trusting(original), decided(t, observed{realm: trusting(original), fetched: map[string]trustedissuers.State{"edge": {Keys: []signingkey.PublicKey{key}}}}))
	current := testkit.Value(record.ReadRealm(before))(t)
	for name, test := range map[string]struct {
		issuer v1beta1.TrustedIssuer
		state  trustedissuers.State
		want   []signingkey.PublicKey
	}{
		"new leader":               {original, trustedissuers.State{}, []signingkey.PublicKey{key}},
		"fetched":                  {original, trustedissuers.State{Keys: []signingkey.PublicKey{newer}}, []signingkey.PublicKey{newer}},
		"revoked":                  {original, trustedissuers.State{Keys: []signingkey.PublicKey{}, Err: trustedissuers.ErrNoKeys, FailingSince: now}, nil},
		"other audience":           {with(func(i *v1beta1.TrustedIssuer) { i.Audience = "other" }), trustedissuers.State{}, []signingkey.PublicKey{key}},
		"other URL of the keys":    {with(func(i *v1beta1.TrustedIssuer) { i.Keys.JWKSURI += "2" }), trustedissuers.State{}, nil},
		"other authorities":        {with(func(i *v1beta1.TrustedIssuer) { i.Keys.CABundle = selfSigned(t) }), trustedissuers.State{}, nil},
		"other issuer":             {with(func(i *v1beta1.TrustedIssuer) { i.Issuer = inline }), trustedissuers.State{}, nil},
		"keys in the spec instead": {with(func(i *v1beta1.TrustedIssuer) { i.Keys = v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(set)} }), trustedissuers.State{}, []signingkey.PublicKey{key}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decided(t, observed{realm: trusting(test.issuer), record: before, fetched: map[string]trustedissuers.State{test.issuer.Name: test.state}})
			testkit.Diff(t, "result", test.want, d.record.Issuers[0].Keys, cmp.Comparer(signingkey.PublicKey.Equal), cmpopts.EquateEmpty())
			after := *d.record
			after.Basis = current.Basis
			if want := test.issuer.Name == "edge" && test.issuer.Audience == "" && sourceOf(&test.issuer) == sourceOf(&original); differInKeysOnly(current, after) != want {
				t.Errorf("only keys change: %t, want %t", !want, want)
			}
			if len(d.fetchIssuers) > 0 && d.fetchIssuers[0].HaveKeys != (len(test.want) > 0) {
				t.Errorf("fetched with keys: %t, want %t", d.fetchIssuers[0].HaveKeys, len(test.want) > 0)
			}
		})
	}
}

// The record omits an issuer that passes the schema but can't be used. A message names the issuer and
// repeats no key. The Realm stays Ready, and its other issuers stay in use.
func TestUnsupportedIssuers(t *testing.T) {
	_, set := issuerKey(t)
	withPrivate := strings.Replace(set, `"kty"`, `"d":"c2VjcmV0","kty"`, 1)
	for name, test := range map[string]struct {
		change    func(*v1beta1.TrustedIssuer)
		wantWords string // empty if accepted
	}{
		"own issuer":        {func(i *v1beta1.TrustedIssuer) { i.Issuer = "https://api.example.com/acme" }, "issuer of this Realm"},
		"another realm":     {func(i *v1beta1.TrustedIssuer) { i.Issuer = "https://api.example.com/other" }, ""},
		"private key":       {func(i *v1beta1.TrustedIssuer) { i.Keys.JWKS = v1beta1.IssuerJWKS(withPrivate) }, "private key"},
		"no usable key":     {func(i *v1beta1.TrustedIssuer) { i.Keys.JWKS = `{"keys":[{"kty":"EC"}]}` }, "no supported key"},
		"CA bundle is text": {func(i *v1beta1.TrustedIssuer) { i.Keys.CABundle = "c2VjcmV0" }, "caBundle"},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := v1beta1.TrustedIssuer{Name: "edge", Issuer: discovered}
			test.change(&issuer)
			other := v1beta1.TrustedIssuer{Name: "other", Issuer: inline, Keys: v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(set)}}
			realm := trusting(issuer, other)
			got := decided(t, observed{realm: realm, state: acknowledgement.Acknowledged})
			acknowledged := acknowledgement.Acknowledged
			conditions := status(realm, got, &acknowledged, instance()).Conditions
			if got.accepted.Status != "True" {
				t.Errorf("not Accepted: %s", got.accepted.Message)
			}
			resolved := meta.FindStatusCondition(conditions, string(v1beta1.ConditionIssuersResolved))
			if test.wantWords == "" {
				if len(got.record.Issuers) != 2 || resolved.Reason == string(v1beta1.ReasonTrustedIssuerNotSupported) {
					t.Errorf("%d issuers in the record, condition %v", len(got.record.Issuers), resolved)
				}
				return
			}
			if len(got.record.Issuers) != 1 || got.record.Issuers[0].Name != "other" || got.fetchIssuers != nil {
				t.Errorf("issuers %v in the record, and %d are fetched", got.record.Issuers, len(got.fetchIssuers))
			}
			if resolved.Status != "False" || resolved.Reason != string(v1beta1.ReasonTrustedIssuerNotSupported) {
				t.Errorf("condition %v", resolved)
			}
			message := resolved.Message
			if s := statusOf(got.issuers, "edge"); len(s.Message) > 256 || !strings.HasSuffix(message, s.Message) {
				t.Errorf("status %+v, condition %q", s, message)
			}
			if !strings.Contains(message, `"edge"`) || !strings.Contains(message, test.wantWords) || strings.Contains(message, "c2VjcmV0") {
				t.Errorf("message %q, want one with %q and without the key", message, test.wantWords)
			}
		})
	}
}

// The status of a Realm must not reveal to its administrator, or to an issuer that chooses its
// jwks_uri, which hosts and ports exist in the networks of the operator.
func TestIssuerStatusHidesNetwork(t *testing.T) {
	issuer := record.Issuer{Name: "edge"}
	realm := &v1beta1.Realm{Spec: v1beta1.RealmSpec{TrustedIssuers: []v1beta1.TrustedIssuer{{Name: "edge", Issuer: discovered}}}}
	reported := func(err trustedissuers.FetchError) (message, condition string) {
		failed := map[string]trustedissuers.State{"edge": {Err: err, FailingSince: now}}
		status := issuerStatus(realm, []record.Issuer{issuer}, nil, failed)
		return status[0].Message, issuersResolved(realm, status).Message
	}
	wantMessage, wantCondition := reported(trustedissuers.ErrHost)
	for _, err := range []trustedissuers.FetchError{trustedissuers.ErrConnection, trustedissuers.ErrCertificate, trustedissuers.ErrTimeout, trustedissuers.ErrResponse} {
		if message, condition := reported(err); message != wantMessage || condition != wantCondition {
			t.Errorf("%q is distinguishable from %q:\n%s\n%s", err, trustedissuers.ErrHost, condition, wantCondition)
		}
	}
	if message, _ := reported(trustedissuers.ErrKeySet); message != string(trustedissuers.ErrKeySet) {
		t.Errorf("message %q, want %q", message, trustedissuers.ErrKeySet)
	}
}

// Each issuer's failure is in the status, the condition and an Event. Ready doesn't change.
func TestIssuerFailures(t *testing.T) {
	key, _ := issuerKey(t)
	keys := []signingkey.PublicKey{key, key}
	ids := []string{key.ID()}
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	issuer := v1beta1.TrustedIssuer{Name: "edge", Issuer: discovered}
	other := issuer
	other.Issuer = inline
	timeout := trustedissuers.State{Err: trustedissuers.ErrTimeout, FailingSince: now.Add(300 * time.Millisecond)}
	wasFailing := v1beta1.TrustedIssuerStatus{Name: "edge", FirstFailureTime: at(-time.Hour), Message: string(trustedissuers.ErrUnreachable)}
	const resolved, failed = "Normal IssuerResolved", "Warning IssuerNotResolved"
	for name, test := range map[string]struct {
		recorded   *v1beta1.TrustedIssuer // issuer of the record; nil if there is none
		keys       []signingkey.PublicKey // in the record
		before     v1beta1.TrustedIssuerStatus
		state      trustedissuers.State
		want       v1beta1.TrustedIssuerStatus
		wantReason v1beta1.ConditionReason
		wantEvent  string
		wantWords  string
	}{
		"first failure": {
			state: timeout,
			want:  v1beta1.TrustedIssuerStatus{FirstFailureTime: at(0), Message: string(trustedissuers.ErrUnreachable)}, wantReason: v1beta1.ReasonIssuerNotResolved,
			wantEvent: failed, wantWords: "rejected until the operator has its keys",
		},
		"failure with keys": {
			recorded: &issuer, keys: keys, state: timeout,
			want: v1beta1.TrustedIssuerStatus{KeyIDs: ids, FirstFailureTime: at(0), Message: string(trustedissuers.ErrUnreachable)}, wantReason: v1beta1.ReasonIssuerNotResolved,
			wantEvent: failed, wantWords: "keep using the last keys",
		},
		"recovery": {
			recorded: &issuer, keys: keys, before: wasFailing, state: trustedissuers.State{Keys: keys},
			want: v1beta1.TrustedIssuerStatus{KeyIDs: ids}, wantReason: v1beta1.ReasonIssuersResolved, wantEvent: resolved,
		},
		"new leader": {
			recorded: &issuer, keys: keys,
			want: v1beta1.TrustedIssuerStatus{KeyIDs: ids}, wantReason: v1beta1.ReasonIssuersResolved,
		},
		"new leader during a failure": {
			recorded: &issuer, keys: keys, before: wasFailing,
			want:       v1beta1.TrustedIssuerStatus{KeyIDs: ids, FirstFailureTime: at(-time.Hour), Message: string(trustedissuers.ErrUnreachable)},
			wantReason: v1beta1.ReasonIssuerNotResolved, wantWords: "2026-03-01T11:00:00Z",
		},
		"first failure of a new leader": {
			recorded: &issuer, keys: keys, before: wasFailing, state: timeout,
			want:       v1beta1.TrustedIssuerStatus{KeyIDs: ids, FirstFailureTime: at(-time.Hour), Message: string(trustedissuers.ErrUnreachable)},
			wantReason: v1beta1.ReasonIssuerNotResolved,
		},
		"revocation": {
			recorded: &issuer, keys: keys, state: trustedissuers.State{Keys: []signingkey.PublicKey{}, Err: trustedissuers.ErrPrivateKey, FailingSince: now},
			want: v1beta1.TrustedIssuerStatus{FirstFailureTime: at(0), Message: string(trustedissuers.ErrPrivateKey)}, wantReason: v1beta1.ReasonIssuerNotResolved,
			wantEvent: failed, wantWords: "rejected until the operator has its keys",
		},
		"the source has changed": {
			recorded: &other, keys: keys, before: wasFailing,
			want: v1beta1.TrustedIssuerStatus{}, wantReason: v1beta1.ReasonProgressing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			realm := trusting(issuer)
			realm.Status.TrustedIssuers = []v1beta1.TrustedIssuerStatus{test.before}
			realm.Status.Conditions = []metav1.Condition{{Type: string(v1beta1.ConditionProgrammed), Status: "True", ObservedGeneration: 3}}
			before := recorded(t, trusting(), now, nil)
			if test.recorded != nil {
				before = written(t, realm, decided(t, observed{realm: trusting(*test.recorded), fetched: map[string]trustedissuers.State{"edge": {Keys: test.keys}}}))
			}
			d := decided(t, observed{realm: realm, record: before, state: acknowledgement.Acknowledged, fetched: map[string]trustedissuers.State{"edge": test.state}})
			acknowledged := acknowledgement.Acknowledged
			got := status(realm, d, &acknowledged, instance())
			test.want.Name = "edge"
			testkit.Diff(t, "status", []v1beta1.TrustedIssuerStatus{test.want}, got.TrustedIssuers)
			c := meta.FindStatusCondition(got.Conditions, string(v1beta1.ConditionIssuersResolved))
			if c == nil || c.Reason != string(test.wantReason) || !strings.Contains(c.Message, test.wantWords) {
				t.Errorf("condition %v, want %s with %q", c, test.wantReason, test.wantWords)
			}
			if test.wantReason == v1beta1.ReasonIssuerNotResolved && (!strings.Contains(c.Message, `"edge" (https://issuer.example.com)`) || !strings.Contains(c.Message, got.TrustedIssuers[0].Message)) {
				t.Errorf("message %q does not name the issuer and the cause", c.Message)
			}
			if ready := meta.FindStatusCondition(got.Conditions, string(v1beta1.ConditionReady)); ready.Status != "True" {
				t.Errorf("Ready is %v", ready)
			}
			var changes []string
			failure, recovery := issuersChanged(realm, got.TrustedIssuers)
			for _, e := range []*events.Event{failure, recovery} {
				if e != nil {
					changes = append(changes, e.Type+" "+string(e.Reason))
				}
			}
			if event := strings.Join(changes, ", "); event != test.wantEvent {
				t.Errorf("event %q, want %q", event, test.wantEvent)
			}
		})
	}
}

// A Realm that isn't Accepted, or trusts no issuer, has no condition for issuers.
func TestNoIssuersCondition(t *testing.T) {
	waiting := acknowledgement.Waiting
	for name, realm := range map[string]*v1beta1.Realm{
		"no issuers":   acme(func(*v1beta1.Realm) {}),
		"not Accepted": trusting(v1beta1.TrustedIssuer{Name: "edge", Issuer: discovered}),
	} {
		if name == "not Accepted" {
			realm.Spec.TokenLifetime = &v1beta1.Duration{Duration: 24 * time.Hour}
		}
		t.Run(name, func(t *testing.T) {
			got := status(realm, decided(t, observed{realm: realm}), &waiting, instance())
			if c := meta.FindStatusCondition(got.Conditions, string(v1beta1.ConditionIssuersResolved)); c != nil {
				t.Errorf("condition %v", c)
			}
			if accepted := meta.IsStatusConditionTrue(got.Conditions, string(v1beta1.ConditionAccepted)); accepted != (name == "no issuers") {
				t.Errorf("Accepted is %t", accepted)
			}
		})
	}
}

// Of two fetches, the one that began when the other was recorded is the later one. A fetch that changes
// nothing changes no time, so that the record is not written.
func TestLatestFetchWins(t *testing.T) {
	first, _ := issuerKey(t)
	second, _ := issuerKey(t)
	keys := func(k ...signingkey.PublicKey) []signingkey.PublicKey { return append([]signingkey.PublicKey{}, k...) }
	at := func(minute int) time.Time { return now.Add(time.Duration(minute) * time.Minute) }
	for name, test := range map[string]struct {
		recorded record.Issuer
		fetched  trustedissuers.State
		wantKeys []signingkey.PublicKey
		wantAt   time.Time
	}{
		"same keys again":  {record.Issuer{Keys: keys(first), FetchedAt: at(1)}, trustedissuers.State{Keys: keys(first), FetchedAt: at(9), After: at(1)}, keys(first), at(1)},
		"new keys":         {record.Issuer{Keys: keys(first), FetchedAt: at(1)}, trustedissuers.State{Keys: keys(second), FetchedAt: at(9), After: at(1)}, keys(second), at(9)},
		"revocation":       {record.Issuer{Keys: keys(first), FetchedAt: at(1)}, trustedissuers.State{Keys: keys(), FetchedAt: at(9), After: at(1)}, keys(), at(9)},
		"keys after it":    {record.Issuer{FetchedAt: at(9)}, trustedissuers.State{Keys: keys(first), FetchedAt: at(12), After: at(9)}, keys(first), at(12)},
		"revoked by other": {record.Issuer{FetchedAt: at(5)}, trustedissuers.State{Keys: keys(first), FetchedAt: at(4), After: at(1)}, nil, at(5)},
		"clock is ahead":   {record.Issuer{FetchedAt: at(5)}, trustedissuers.State{Keys: keys(first), FetchedAt: at(60), After: at(1)}, nil, at(5)},
	} {
		t.Run(name, func(t *testing.T) {
			got, gotAt := latest(test.recorded, test.fetched)
			if diff := cmp.Diff(test.wantKeys, got, cmp.Comparer(signingkey.PublicKey.Equal), cmpopts.EquateEmpty()); diff != "" || !gotAt.Equal(test.wantAt) {
				t.Errorf("time %s, want %s; keys (-want +got):\n%s", gotAt, test.wantAt, diff)
			}
		})
	}
}

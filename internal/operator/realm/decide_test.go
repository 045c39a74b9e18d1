package realm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func instance() *config.Instance {
	return &config.Instance{
		InstanceDomain: "example.com", ExternalPort: 443,
		Security: config.Security{
			DefaultTokenLifetime: metav1.Duration{Duration: 5 * time.Minute},
			MaximumTokenLifetime: metav1.Duration{Duration: time.Hour},
		},
	}
}

func acme(change func(*v1beta1.Realm)) *v1beta1.Realm {
	realm := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "11111111-1111-1111-1111-111111111111", Generation: 3}}
	change(realm)
	return realm
}

// recorded returns a Realm's next record after all token servers have acknowledged the previous
// one. The first record of a realm has an Active key, too.
func recorded(t *testing.T, realm *v1beta1.Realm, at time.Time, before *corev1.Secret) *corev1.Secret {
	t.Helper()
	if before == nil {
		before = written(t, realm, firstDecision(t, realm, at))
	}
	d := decidedAt(t, observed{realm: realm, record: before, state: acknowledgement.Acknowledged}, at)
	return written(t, realm, d)
}

// decidedAt returns a decision that lacks nothing: everything was read from the API server, a step of the keys is
// confirmed unless seen says otherwise, and the Sealer is busy if it has generated no key.
func decidedAt(t *testing.T, seen observed, at time.Time) decision {
	t.Helper()
	seen.live, seen.confirmed, seen.retryAfter = true, !seen.unconfirmed, busyDelay
	d := testkit.Value(decide(&seen, instance(), at, rand.Reader))(t)
	if d.lacks != 0 {
		t.Fatalf("the decision lacks %b", d.lacks)
	}
	return d
}

// firstDecision returns the decision for a new Realm.
func firstDecision(t *testing.T, realm *v1beta1.Realm, at time.Time) decision {
	t.Helper()
	return decidedAt(t, observed{realm: realm}, at)
}

// creator is a client that creates every object.
type creator struct{ client.Client }

func (creator) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }

// written returns the record Secret for a decision.
func written(t *testing.T, realm *v1beta1.Realm, d decision) *corev1.Secret {
	t.Helper()
	desired := testkit.Value(recordsecret.ForRealm("system", realm, *d.record))(t)
	return testkit.Value(apply.Secret(t.Context(), creator{}, nil, desired))(t)
}

func TestDecide(t *testing.T) {
	unchanged := func(*v1beta1.Realm) {}
	settled := recorded(t, acme(unchanged), now.Add(-time.Hour), nil)
	corrupt := settled.DeepCopy()
	corrupt.Data[record.DataKey] = []byte("{")
	hadKeys := func(r *v1beta1.Realm) {
		r.Status.SigningKeys = []v1beta1.SigningKeyStatus{
			{KeyID: "a", State: "Active", CreationTime: metav1.NewTime(now.Add(-2 * time.Hour))},
			{KeyID: "b", State: "Pending", CreationTime: metav1.NewTime(now.Add(-time.Hour))},
		}
	}
	hadKeysAndRotates := func(after time.Duration) func(*v1beta1.Realm) {
		return func(r *v1beta1.Realm) {
			hadKeys(r)
			r.Spec.Signing.RotationRequestTime = &metav1.Time{Time: now.Add(after)}
		}
	}

	type outcome struct {
		Reason   v1beta1.ConditionReason
		Keys     string // algorithms and states
		Disabled bool
		Lifetime time.Duration
		Next     time.Duration // from now; zero means never
	}
	for name, test := range map[string]struct {
		realm  *v1beta1.Realm
		record *corev1.Secret
		want   outcome
	}{
		"suspended realm rotates": {
			acme(func(r *v1beta1.Realm) {
				r.Spec.Suspend = true
				r.Spec.Signing.RotationRequestTime = &metav1.Time{Time: now}
			}), settled,
			outcome{v1beta1.ReasonAccepted, "ES256 Active, ES256 Pending", true, 5 * time.Minute, 0},
		},
		"claims too large": {
			acme(func(r *v1beta1.Realm) {
				r.Spec.Claims = v1beta1.Claims{{Name: "a", Strings: []string{strings.Repeat("ä", 1024)}}}
			}), settled,
			outcome{v1beta1.ReasonClaimsTooLarge, "ES256 Active", true, 5 * time.Minute, 0},
		},
		"excessive lifetime generates no keys": {
			acme(func(r *v1beta1.Realm) { r.Spec.TokenLifetime = &v1beta1.Duration{Duration: 2 * time.Hour} }), nil,
			outcome{v1beta1.ReasonLifetimeExceedsInstanceMaximum, "", false, 2 * time.Hour, 0},
		},
		"corrupt record is kept": {
			acme(unchanged), corrupt,
			outcome{v1beta1.ReasonKeysUnreadable, "", false, 5 * time.Minute, 0},
		},
		"lost record, rotation between the keys": {
			acme(hadKeysAndRotates(-90 * time.Minute)), nil,
			outcome{v1beta1.ReasonKeysMissing, "", false, 5 * time.Minute, 0},
		},
		"lost record, rotation of all keys": {
			acme(hadKeysAndRotates(-time.Hour + time.Second)), nil,
			outcome{v1beta1.ReasonAccepted, "ES256 Pending", false, 5 * time.Minute, time.Minute},
		},
		"lost record, a key of the future, rotation of the others": {
			acme(func(r *v1beta1.Realm) {
				hadKeysAndRotates(-time.Hour + time.Second)(r)
				r.Status.SigningKeys = append(r.Status.SigningKeys, v1beta1.SigningKeyStatus{KeyID: "planted", CreationTime: metav1.NewTime(farFuture)})
			}), nil,
			outcome{v1beta1.ReasonAccepted, "ES256 Pending", false, 5 * time.Minute, time.Minute},
		},
		"lost record, rotation later": {
			acme(hadKeysAndRotates(time.Hour)), nil,
			outcome{v1beta1.ReasonKeysMissing, "", false, 5 * time.Minute, time.Hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := decidedAt(t, observed{realm: test.realm, record: test.record}, now)
			got := outcome{Reason: d.accepted.Reason, Lifetime: d.policy.TokenLifetime}
			if d.blocked != nil {
				got.Reason = d.blocked.Reason
			}
			if d.record != nil {
				got.Keys, got.Disabled = states(d.record.Keys), d.record.Disabled
			}
			if !d.nextKeyStep.IsZero() {
				got.Next = d.nextKeyStep.Sub(now)
			}
			testkit.Diff(t, "result", test.want, got)
		})
	}
}

// farFuture is later than any clock can be ahead.
var farFuture = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)

// A key in the record that claims the future is published for at most the longest lifetime and the skew. The key
// that signs is replaced like any other.
func TestKeysOfTheFuture(t *testing.T) {
	realm := acme(func(r *v1beta1.Realm) { r.Spec.Signing.RotationRequestTime = &metav1.Time{Time: now.Add(time.Minute)} })
	body := testkit.Value(record.ReadRealm(recorded(t, realm, now.Add(-time.Hour), nil)))(t)
	planted := testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
	planted.Retire()
	planted.CreatedAt, planted.RetiredAt, planted.LongestLifetime = farFuture, farFuture, 100*365*24*time.Hour
	body.Keys[0].CreatedAt, body.Keys[0].ActiveAt = farFuture, farFuture
	body.Keys = append(body.Keys, planted)
	secret := written(t, realm, decision{record: &body})
	published := func(id string) bool {
		return slices.ContainsFunc(testkit.Value(record.ReadRealm(secret))(t).Keys, func(k signingkey.Key) bool { return k.ID == id })
	}
	for _, step := range []struct {
		after                time.Duration
		wantPlanted, wantOld bool
	}{
		{0, true, true},
		{time.Minute, true, true},    // A successor is published.
		{2 * time.Hour, true, true},  // It signs.
		{3 * time.Hour, true, false}, // The last token of the old key has expired.
		{24*time.Hour + signingkey.Skew - time.Second, true, false},
		{24*time.Hour + signingkey.Skew, false, false},
	} {
		for range 3 { // Each plan takes one step.
			seen := observed{realm: realm, record: secret, state: acknowledgement.Acknowledged}
			d := decidedAt(t, seen, now.Add(step.after))
			secret = written(t, realm, d)
		}
		if got := published(planted.ID); got != step.wantPlanted {
			t.Errorf("after %s, the planted key is published: %t", step.after, got)
		}
		if got := published(body.Keys[0].ID); got != step.wantOld {
			t.Errorf("after %s, the key that signed is published: %t", step.after, got)
		}
	}
}

// A new algorithm triggers a rotation. The new key becomes active after it was published for
// publishAhead. The old key is kept until its last token has expired.
func TestRotationOverTime(t *testing.T) {
	const publishAhead = time.Hour
	realm := acme(func(r *v1beta1.Realm) { r.Spec.TokenLifetime = &v1beta1.Duration{Duration: time.Hour} })
	secret := recorded(t, realm, now.Add(-time.Minute), nil)
	realm.Spec.Signing.Algorithm = v1beta1.SigningAlgorithmES384
	for _, step := range []struct {
		after        time.Duration
		want         string
		wantRotation bool
	}{
		{0, "ES256 Active, ES384 Pending", false},
		{time.Second, "ES256 Active, ES384 Pending", false},
		{publishAhead, "ES256 Active, ES384 Pending", false},
		{publishAhead + time.Second, "ES256 Retiring, ES384 Active", true},
		{publishAhead + 3*time.Second, "ES256 Retiring, ES384 Active", false},
		{publishAhead + 2*time.Second + time.Hour + signingkey.Skew, "ES256 Retiring, ES384 Active", false},
		{publishAhead + 3*time.Second + time.Hour + signingkey.Skew, "ES384 Active", false},
	} {
		at := now.Add(step.after)
		d := decidedAt(t, observed{realm: realm, record: secret, state: acknowledgement.Acknowledged}, at)
		if d.rotates != step.wantRotation {
			t.Errorf("after %s: rotates %t, want %t", step.after, d.rotates, step.wantRotation)
		}
		secret = recorded(t, realm, at, secret)
		body := testkit.Value(record.ReadRealm(secret))(t)
		if got := states(body.Keys); got != step.want {
			t.Errorf("after %s: keys %q, want %q", step.after, got, step.want)
		}
	}
}

// Verifiers must cache keys for less than publishAhead, even with scaled intervals.
func TestPolicyIsScaled(t *testing.T) {
	for name, test := range map[string]struct {
		speedUp int32
		signing v1beta1.Signing
		want    signingkey.Policy
		cache   int64
	}{
		"defaults": {
			speedUp: 1, cache: 300,
			want: signingkey.Policy{RotationInterval: 720 * time.Hour, PublishAhead: time.Hour, Skew: 5 * time.Minute},
		},
		"speed-up": {
			speedUp: 300, cache: 1,
			signing: v1beta1.Signing{RotationInterval: &v1beta1.Duration{Duration: time.Hour}, PublishAhead: &v1beta1.Duration{Duration: 10 * time.Minute}},
			want:    signingkey.Policy{RotationInterval: 12 * time.Second, PublishAhead: 2 * time.Second, Skew: time.Second},
		},
		"maximum speed-up": {
			speedUp: 3600, cache: 0,
			signing: v1beta1.Signing{RotationInterval: &v1beta1.Duration{Duration: time.Hour}},
			want:    signingkey.Policy{RotationInterval: time.Second, PublishAhead: 500 * time.Millisecond, Skew: 5 * time.Minute / 3600},
		},
	} {
		t.Run(name, func(t *testing.T) {
			scaled := instance()
			scaled.Testing.SpeedUp = test.speedUp
			d := testkit.Value(decide(&observed{realm: acme(func(r *v1beta1.Realm) { r.Spec.Signing = test.signing }), live: true}, scaled, now, rand.Reader))(t)
			test.want.Algorithm, test.want.TokenLifetime = signingkey.ES256, 5*time.Minute
			if diff := cmp.Diff(test.want, d.policy); diff != "" || d.record.KeyCacheSeconds != test.cache {
				t.Errorf("keyCacheSeconds %d, want %d; policy (-want +got):\n%s", d.record.KeyCacheSeconds, test.cache, diff)
			}
		})
	}
}

func states(keys []signingkey.Key) string {
	var shown []string
	for _, k := range keys {
		shown = append(shown, string(k.Algorithm)+" "+string(k.State))
	}
	return strings.Join(shown, ", ")
}

// A record has the generation of the Realm that it implements, and the version from which on clients have
// had what it contains apart from keys.
func TestBasis(t *testing.T) {
	unchanged, rotate := func(*v1beta1.Realm) {}, func(r *v1beta1.Realm) { r.Spec.Signing.RotationRequestTime = &metav1.Time{Time: now.Add(time.Hour)} }
	next := func(change func(*v1beta1.Realm)) func(*v1beta1.Realm) {
		return func(r *v1beta1.Realm) {
			r.Generation = 4
			change(r)
		}
	}
	first := firstDecision(t, acme(unchanged), now)
	active := func(content string) *corev1.Secret {
		secret := settled(t, acme(unchanged), sealing.Off)
		body := testkit.Value(record.ReadRealm(secret))(t)
		body.Basis.ContentVersion = content
		return written(t, acme(unchanged), decision{record: &body})
	}
	for name, test := range map[string]struct {
		change func(*v1beta1.Realm)
		record *corev1.Secret
		want   record.Basis
	}{
		"new":                          {unchanged, nil, record.Basis{Generation: 3}},
		"first key is active":          {unchanged, written(t, acme(unchanged), first), record.Basis{Generation: 3}},
		"unchanged":                    {unchanged, active(""), record.Basis{Generation: 3}},
		"another edit without effect":  {next(unchanged), active("5"), record.Basis{Generation: 4, ContentVersion: "5"}},
		"rotation":                     {next(rotate), active(""), record.Basis{Generation: 4, ContentVersion: "10"}},
		"suspended":                    {next(func(r *v1beta1.Realm) { r.Spec.Suspend = true }), active("5"), record.Basis{Generation: 4}},
		"rejected, which disables it":  {next(func(r *v1beta1.Realm) { r.Spec.TokenLifetime = &v1beta1.Duration{Duration: 2 * time.Hour} }), active("5"), record.Basis{Generation: 4}},
		"restored, without generation": {unchanged, withoutBasis(t, active("")), record.Basis{Generation: 3, ContentVersion: "10"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observed{realm: acme(test.change), record: test.record, state: acknowledgement.Acknowledged}
			if seen.record != nil {
				seen.record.ResourceVersion = "10"
			}
			d := decidedAt(t, seen, now.Add(2*time.Hour))
			testkit.Diff(t, "result", test.want, d.record.Basis)
		})
	}
}

// An operator that was rolled back keeps a restriction that it doesn't know, whatever it changes.
func TestUnknownRestrictionsAreKept(t *testing.T) {
	later := record.Restrictions{"later": json.RawMessage("true")}
	for name, change := range map[string]func(*v1beta1.Realm){
		"unchanged":    func(*v1beta1.Realm) {},
		"suspended":    func(r *v1beta1.Realm) { r.Spec.Suspend = true },
		"not Accepted": func(r *v1beta1.Realm) { r.Spec.TokenLifetime = &v1beta1.Duration{Duration: 2 * time.Hour} },
	} {
		realm := acme(func(*v1beta1.Realm) {})
		body := testkit.Value(record.ReadRealm(recorded(t, realm, now, nil)))(t)
		body.Restrictions = later
		seen := observed{realm: acme(change), record: written(t, realm, decision{record: &body}), state: acknowledgement.Acknowledged}
		testkit.Diff(t, name, later, decidedAt(t, seen, now).record.Restrictions)
	}
}

// withoutBasis returns a record as a restore writes it.
func withoutBasis(t *testing.T, secret *corev1.Secret) *corev1.Secret {
	t.Helper()
	body := testkit.Value(record.ReadRealm(secret))(t)
	body.Basis = record.Basis{}
	return written(t, acme(func(*v1beta1.Realm) {}), decision{record: &body})
}

// A Realm that is older than its record changes nothing.
func TestOlderRealmIsInconclusive(t *testing.T) {
	suspended := acme(func(r *v1beta1.Realm) { r.Generation, r.Spec.Suspend = 4, true })
	secret := recorded(t, suspended, now, nil)
	for name, change := range map[string]func(*v1beta1.Realm){
		"accepted": func(*v1beta1.Realm) {},
		"rejected": func(r *v1beta1.Realm) { r.Spec.TokenLifetime = &v1beta1.Duration{Duration: 2 * time.Hour} },
	} {
		for _, live := range []bool{false, true} {
			seen := observed{realm: acme(change), record: secret, state: acknowledgement.Acknowledged, live: live}
			if d := testkit.Value(decide(&seen, instance(), now, rand.Reader))(t); d.lacks != lacksLive || d.record != nil {
				t.Errorf("%s: lacks %b, record %v", name, d.lacks, d.record)
			}
		}
	}
}

// A step of the keys that can't be undone waits for the confirmation that every token server serves them.
func TestUnconfirmedStepWaits(t *testing.T) {
	realm := acme(func(r *v1beta1.Realm) { r.Spec.TokenLifetime = &v1beta1.Duration{Duration: time.Hour} })
	secret := written(t, realm, firstDecision(t, realm, now))
	for _, step := range []struct {
		after             time.Duration
		algorithm         v1beta1.SigningAlgorithm
		unconfirmed, want string
		wantConfirmation  bool
	}{
		{after: time.Second, unconfirmed: "ES256 Pending", want: "ES256 Active", wantConfirmation: true},
		{after: 2 * time.Second, algorithm: "EdDSA", unconfirmed: "ES256 Active, EdDSA Pending", want: "ES256 Active, EdDSA Pending"},
		{after: 3 * time.Second, algorithm: "EdDSA", unconfirmed: "ES256 Active, EdDSA Pending", want: "ES256 Active, EdDSA Pending", wantConfirmation: true},
		{after: 2 * time.Hour, algorithm: "EdDSA", unconfirmed: "ES256 Active, EdDSA Pending", want: "ES256 Retiring, EdDSA Active", wantConfirmation: true},
		{after: 3 * time.Hour, algorithm: "EdDSA", unconfirmed: "ES256 Retiring, EdDSA Active", want: "ES256 Retiring, EdDSA Active", wantConfirmation: true},
		{after: 6 * time.Hour, algorithm: "EdDSA", unconfirmed: "EdDSA Active", want: "EdDSA Active"},
	} {
		realm.Spec.Signing.Algorithm = step.algorithm
		seen := observed{realm: realm, record: secret, state: acknowledgement.Acknowledged}
		asking := testkit.Value(decide(&seen, instance(), now.Add(step.after), rand.Reader))(t)
		if (asking.lacks == lacksConfirmation) != step.wantConfirmation {
			t.Errorf("after %s: lacks %b", step.after, asking.lacks)
		}
		d := decidedAt(t, seen, now.Add(step.after))
		if states(d.record.Keys) != step.want {
			t.Errorf("after %s: keys %s", step.after, states(d.record.Keys))
		}
		seen.unconfirmed = true
		held := decidedAt(t, seen, now.Add(step.after))
		if states(held.record.Keys) != step.unconfirmed {
			t.Errorf("unconfirmed after %s: keys %s", step.after, states(held.record.Keys))
		}
		for i := range held.record.Keys {
			if k := &held.record.Keys[i]; step.wantConfirmation && k.State == "Retiring" && !k.RetiredAt.IsZero() {
				t.Errorf("unconfirmed after %s: key retired at %s", step.after, k.RetiredAt)
			}
		}
		secret = written(t, realm, d)
	}
}

// A repeated scope of a rule counts once: a token server treats them as a set, and would reject every request for it.
func TestRepeatedScopesOfExchangesAreRecordedOnce(t *testing.T) {
	d := decided(t, observed{realm: acme(func(r *v1beta1.Realm) {
		r.Spec.Scopes = v1beta1.Scopes{"read"}
		r.Spec.Exchanges = []v1beta1.Exchange{{Name: "orders", Scopes: v1beta1.ExchangeScopes{"read", "read"}}}
	})})
	testkit.Diff(t, "scopes", []string{"read"}, d.record.Exchanges[0].Scopes)
}

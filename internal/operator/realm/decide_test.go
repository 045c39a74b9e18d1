package realm

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
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

func acme(change func(*v1alpha1.Realm)) *v1alpha1.Realm {
	realm := &v1alpha1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "11111111-1111-1111-1111-111111111111", Generation: 3}}
	change(realm)
	return realm
}

// recorded returns a Realm's next record after all token servers have acknowledged the previous
// one. The first record of a realm has an Active key, too.
func recorded(t *testing.T, realm *v1alpha1.Realm, at time.Time, before *corev1.Secret) *corev1.Secret {
	t.Helper()
	if before == nil {
		before = written(t, realm, firstDecision(t, realm, at))
	}
	d := testkit.Value(decide(observed{realm: realm, record: before, state: acknowledgement.Acknowledged}, instance(), at, rand.Reader))(t)
	return written(t, realm, d)
}

// firstDecision returns the decision for a new Realm.
func firstDecision(t *testing.T, realm *v1alpha1.Realm, at time.Time) decision {
	t.Helper()
	d := testkit.Value(decide(observed{realm: realm}, instance(), at, rand.Reader))(t)
	return d
}

// written returns the record Secret for a decision.
func written(t *testing.T, realm *v1alpha1.Realm, d decision) *corev1.Secret {
	t.Helper()
	desired := testkit.Value(record.ForRealm("system", realm, *d.record))(t)
	secret := testkit.Value(apply.Convert[corev1.Secret](desired))(t)
	return secret
}

func TestDecide(t *testing.T) {
	unchanged := func(*v1alpha1.Realm) {}
	settled := recorded(t, acme(unchanged), now.Add(-time.Hour), nil)
	corrupt := settled.DeepCopy()
	corrupt.Data[record.DataKey] = []byte("{")
	hadKeys := func(r *v1alpha1.Realm) {
		r.Status.SigningKeys = []v1alpha1.SigningKeyStatus{
			{KeyID: "a", State: "Active", CreatedAt: metav1.NewTime(now.Add(-2 * time.Hour))},
			{KeyID: "b", State: "Pending", CreatedAt: metav1.NewTime(now.Add(-time.Hour))},
		}
	}
	hadKeysAndRotates := func(after time.Duration) func(*v1alpha1.Realm) {
		return func(r *v1alpha1.Realm) {
			hadKeys(r)
			r.Spec.Signing.RotateAfter = &metav1.Time{Time: now.Add(after)}
		}
	}

	const untilNext = 718 * time.Hour // until the successor of a one-hour-old key is published
	type outcome struct {
		Reason   v1alpha1.ConditionReason
		Keys     string // algorithms and states
		Disabled bool
		Lifetime time.Duration
		Next     time.Duration // from now; zero means never
	}
	for name, test := range map[string]struct {
		realm  *v1alpha1.Realm
		record *corev1.Secret
		want   outcome
	}{
		"first key is pending": {
			acme(unchanged), nil,
			outcome{v1alpha1.ReasonAccepted, "ES256 Pending", false, 5 * time.Minute, signingkey.FirstKeyWait},
		},
		"no change": {
			acme(unchanged), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, 5 * time.Minute, untilNext},
		},
		"suspended": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Suspend = true }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", true, 5 * time.Minute, untilNext},
		},
		"new algorithm is published first": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.Algorithm = v1alpha1.SigningAlgorithmEdDSA }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active, EdDSA Pending", false, 5 * time.Minute, 0},
		},
		"shorter interval": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.RotationInterval = &v1alpha1.Duration{Duration: 2 * time.Hour} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active, ES256 Pending", false, 5 * time.Minute, 0},
		},
		"longer publishAhead": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.PublishAhead = &v1alpha1.Duration{Duration: 11 * time.Hour} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, 5 * time.Minute, untilNext - 10*time.Hour},
		},
		"rotateAfter has passed": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.RotateAfter = &metav1.Time{Time: now.Add(-time.Minute)} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active, ES256 Pending", false, 5 * time.Minute, 0},
		},
		"rotateAfter is before the key was created": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.RotateAfter = &metav1.Time{Time: now.Add(-2 * time.Hour)} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, 5 * time.Minute, untilNext},
		},
		"suspended realm rotates": {
			acme(func(r *v1alpha1.Realm) {
				r.Spec.Suspend = true
				r.Spec.Signing.RotateAfter = &metav1.Time{Time: now}
			}), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active, ES256 Pending", true, 5 * time.Minute, 0},
		},
		"token lifetime in the spec": {
			acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: time.Hour} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, time.Hour, untilNext},
		},
		"excessive lifetime disables the realm and keeps its keys": {
			acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: 2 * time.Hour} }), settled,
			outcome{v1alpha1.ReasonLifetimeExceedsInstanceMaximum, "ES256 Active", true, 2 * time.Hour, 0},
		},
		"claims too large": {
			acme(func(r *v1alpha1.Realm) {
				r.Spec.Claims = v1alpha1.Claims{{Name: "a", Strings: []string{strings.Repeat("ä", 1024)}}}
			}), settled,
			outcome{v1alpha1.ReasonClaimsTooLarge, "ES256 Active", true, 5 * time.Minute, 0},
		},
		"excessive lifetime generates no keys": {
			acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: 2 * time.Hour} }), nil,
			outcome{v1alpha1.ReasonLifetimeExceedsInstanceMaximum, "", false, 2 * time.Hour, 0},
		},
		"corrupt record is kept": {
			acme(unchanged), corrupt,
			outcome{v1alpha1.ReasonKeysUnreadable, "", false, 5 * time.Minute, 0},
		},
		"lost record": {
			acme(hadKeys), nil,
			outcome{v1alpha1.ReasonKeysMissing, "", false, 5 * time.Minute, 0},
		},
		"lost record, excessive lifetime": {
			acme(func(r *v1alpha1.Realm) {
				hadKeys(r)
				r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: 2 * time.Hour}
			}), nil,
			outcome{v1alpha1.ReasonKeysMissing, "", false, 2 * time.Hour, 0},
		},
		"lost record, an earlier rotation": {
			acme(hadKeysAndRotates(-time.Hour)), nil,
			outcome{v1alpha1.ReasonKeysMissing, "", false, 5 * time.Minute, 0},
		},
		"lost record, rotation between the keys": {
			acme(hadKeysAndRotates(-90 * time.Minute)), nil,
			outcome{v1alpha1.ReasonKeysMissing, "", false, 5 * time.Minute, 0},
		},
		"lost record, rotation of all keys": {
			acme(hadKeysAndRotates(-time.Hour + time.Second)), nil,
			outcome{v1alpha1.ReasonAccepted, "ES256 Pending", false, 5 * time.Minute, time.Minute},
		},
		"lost record, rotation of all keys now": {
			acme(hadKeysAndRotates(0)), nil,
			outcome{v1alpha1.ReasonAccepted, "ES256 Pending", false, 5 * time.Minute, time.Minute},
		},
		"lost record, rotation later": {
			acme(hadKeysAndRotates(time.Hour)), nil,
			outcome{v1alpha1.ReasonKeysMissing, "", false, 5 * time.Minute, time.Hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := testkit.Value(decide(observed{realm: test.realm, record: test.record}, instance(), now, rand.Reader))(t)
			got := outcome{Reason: d.accepted.Reason, Lifetime: d.lifetime}
			if d.blocked != nil {
				got.Reason = d.blocked.Reason
			}
			if d.record != nil {
				got.Keys, got.Disabled = states(d.record.Keys), d.record.Disabled
			}
			if !d.next.IsZero() {
				got.Next = d.next.Sub(now)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A new algorithm triggers a rotation. The new key becomes active after it was published for
// publishAhead. The old key is kept until its last token has expired.
func TestRotationOverTime(t *testing.T) {
	const publishAhead = time.Hour
	realm := acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: time.Hour} })
	secret := recorded(t, realm, now.Add(-time.Minute), nil)
	realm.Spec.Signing.Algorithm = v1alpha1.SigningAlgorithmES384
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
		d := testkit.Value(decide(observed{realm: realm, record: secret, state: acknowledgement.Acknowledged}, instance(), at, rand.Reader))(t)
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
		signing v1alpha1.Signing
		want    signingkey.Policy
		cache   int64
	}{
		"defaults": {
			speedUp: 1, cache: 300,
			want: signingkey.Policy{RotationInterval: 720 * time.Hour, PublishAhead: time.Hour, Skew: 5 * time.Minute},
		},
		"minimum": {
			speedUp: 1, cache: 300,
			signing: v1alpha1.Signing{RotationInterval: &v1alpha1.Duration{Duration: time.Hour}, PublishAhead: &v1alpha1.Duration{Duration: 10 * time.Minute}},
			want:    signingkey.Policy{RotationInterval: time.Hour, PublishAhead: 10 * time.Minute, Skew: 5 * time.Minute},
		},
		"speed-up": {
			speedUp: 300, cache: 1,
			signing: v1alpha1.Signing{RotationInterval: &v1alpha1.Duration{Duration: time.Hour}, PublishAhead: &v1alpha1.Duration{Duration: 10 * time.Minute}},
			want:    signingkey.Policy{RotationInterval: 12 * time.Second, PublishAhead: 2 * time.Second, Skew: time.Second},
		},
		"maximum speed-up": {
			speedUp: 3600, cache: 0,
			signing: v1alpha1.Signing{RotationInterval: &v1alpha1.Duration{Duration: time.Hour}},
			want:    signingkey.Policy{RotationInterval: time.Second, PublishAhead: 500 * time.Millisecond, Skew: 5 * time.Minute / 3600},
		},
	} {
		t.Run(name, func(t *testing.T) {
			scaled := instance()
			scaled.Testing.SpeedUp = test.speedUp
			d := testkit.Value(decide(observed{realm: acme(func(r *v1alpha1.Realm) { r.Spec.Signing = test.signing })}, scaled, now, rand.Reader))(t)
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

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

// recorded returns the record that the decision on a Realm leads to, where all token
// servers have acknowledged the one before.
func recorded(t *testing.T, realm *v1alpha1.Realm, at time.Time, before *corev1.Secret) *corev1.Secret {
	t.Helper()
	d, err := decide(observed{realm: realm, record: before, state: acknowledgement.Acknowledged}, instance(), at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, realm, d)
}

// written returns the record as the decision has it.
func written(t *testing.T, realm *v1alpha1.Realm, d decision) *corev1.Secret {
	t.Helper()
	desired, err := record.ForRealm("system", realm, *d.record)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := apply.Convert[corev1.Secret](desired)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestDecide(t *testing.T) {
	unchanged := func(*v1alpha1.Realm) {}
	settled := recorded(t, acme(unchanged), now.Add(-time.Hour), nil)
	damaged := settled.DeepCopy()
	damaged.Data[record.DataKey] = []byte("{")

	const inTime = 718 * time.Hour // until a key that is an hour old needs a successor
	type outcome struct {
		Reason   v1alpha1.ConditionReason
		Keys     string // their states
		Disabled bool
		Lifetime time.Duration
		Next     time.Duration // from now; 0: never
	}
	for name, test := range map[string]struct {
		realm  *v1alpha1.Realm
		record *corev1.Secret
		want   outcome
	}{
		"first key signs at once": {
			acme(unchanged), nil,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, 5 * time.Minute, inTime + time.Hour},
		},
		"nothing to do": {
			acme(unchanged), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, 5 * time.Minute, inTime},
		},
		"suspended": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Suspend = true }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", true, 5 * time.Minute, inTime},
		},
		"another algorithm is published ahead": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.Algorithm = v1alpha1.SigningAlgorithmEdDSA }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active, EdDSA Pending", false, 5 * time.Minute, 0},
		},
		"a shorter interval": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.RotationInterval = &metav1.Duration{Duration: 2 * time.Hour} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active, ES256 Pending", false, 5 * time.Minute, 0},
		},
		"another time ahead": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.PublishAhead = &metav1.Duration{Duration: 11 * time.Hour} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, 5 * time.Minute, inTime - 10*time.Hour},
		},
		"rotateAfter has passed": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.RotateAfter = &metav1.Time{Time: now.Add(-time.Minute)} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active, ES256 Pending", false, 5 * time.Minute, 0},
		},
		"rotateAfter passed before the key was made": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.RotateAfter = &metav1.Time{Time: now.Add(-2 * time.Hour)} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, 5 * time.Minute, inTime},
		},
		"a suspended realm rotates": {
			acme(func(r *v1alpha1.Realm) {
				r.Spec.Suspend = true
				r.Spec.Signing.RotateAfter = &metav1.Time{Time: now}
			}), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active, ES256 Pending", true, 5 * time.Minute, 0},
		},
		"own lifetime": {
			acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &metav1.Duration{Duration: time.Hour} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, time.Hour, inTime},
		},
		"a lifetime over the maximum stops a realm and keeps its keys": {
			acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &metav1.Duration{Duration: 2 * time.Hour} }), settled,
			outcome{v1alpha1.ReasonLifetimeExceedsInstanceMaximum, "ES256 Active", true, 2 * time.Hour, 0},
		},
		"a lifetime over the maximum makes no keys": {
			acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &metav1.Duration{Duration: 2 * time.Hour} }), nil,
			outcome{v1alpha1.ReasonLifetimeExceedsInstanceMaximum, "", false, 2 * time.Hour, 0},
		},
		"a damaged record stays": {
			acme(unchanged), damaged,
			outcome{v1alpha1.ReasonKeysUnreadable, "", false, 5 * time.Minute, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := decide(observed{realm: test.realm, record: test.record}, instance(), now, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			got := outcome{Reason: d.accepted.Reason, Lifetime: d.lifetime}
			if d.unreadable != nil {
				got.Reason = d.unreadable.Reason
			}
			if d.record != nil {
				got.Keys, got.Disabled = states(d.record.Keys), d.record.Disabled
			}
			if !d.next.IsZero() {
				got.Next = d.next.Sub(now)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A rotation over time, by an algorithm that changes: the successor signs when it has been
// published long enough, and the predecessor stays while tokens of its may be valid.
func TestRotationOverTime(t *testing.T) {
	const publishAhead = time.Hour
	realm := acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &metav1.Duration{Duration: time.Hour} })
	secret := recorded(t, realm, now.Add(-time.Minute), nil)
	realm.Spec.Signing.Algorithm = v1alpha1.SigningAlgorithmES384
	for _, step := range []struct {
		after    time.Duration
		want     string
		wantTurn bool
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
		d, err := decide(observed{realm: realm, record: secret, state: acknowledgement.Acknowledged}, instance(), at, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if d.rotates != step.wantTurn || !d.onlyKeys {
			t.Errorf("after %s: rotates %t, only keys differ %t, want %t and true", step.after, d.rotates, d.onlyKeys, step.wantTurn)
		}
		secret = recorded(t, realm, at, secret)
		body, err := record.ReadRealm(secret)
		if err != nil {
			t.Fatal(err)
		}
		if got := states(body.Keys); got != step.want {
			t.Errorf("after %s the keys are %q, want %q", step.after, got, step.want)
		}
	}
}

// Nothing that waits for token servers goes on without their word.
func TestRotationWaitsForTokenServers(t *testing.T) {
	realm := acme(func(*v1alpha1.Realm) {})
	secret := recorded(t, realm, now.Add(-time.Minute), nil)
	realm.Spec.Signing.Algorithm = v1alpha1.SigningAlgorithmEdDSA
	secret = recorded(t, realm, now, secret)
	for name, state := range map[string]acknowledgement.State{"none": acknowledgement.NoServer, "one behind": acknowledgement.Waiting} {
		d, err := decide(observed{realm: realm, record: secret, state: state}, instance(), now.Add(24*time.Hour), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if got := states(d.record.Keys); got != "ES256 Active, EdDSA Pending" || !d.next.IsZero() {
			t.Errorf("%s: the keys are %q, next %s", name, got, d.next)
		}
		if want := now.Add(time.Hour); !d.nextRotation.Equal(want) {
			t.Errorf("%s: the next rotation is told for %s, want %s, which is past", name, d.nextRotation, want)
		}
	}
}

// What tests shorten stays in proportion: keys may be cached for less than they are
// published ahead.
func TestPace(t *testing.T) {
	for name, test := range map[string]struct {
		speedUp int32
		signing v1alpha1.Signing
		want    signingkey.Policy
		cache   int64
	}{
		"as it is": {
			speedUp: 1, cache: 300,
			want: signingkey.Policy{RotationInterval: 720 * time.Hour, PublishAhead: time.Hour, Skew: 5 * time.Minute},
		},
		"shortest": {
			speedUp: 1, cache: 300,
			signing: v1alpha1.Signing{RotationInterval: &metav1.Duration{Duration: time.Hour}, PublishAhead: &metav1.Duration{Duration: 10 * time.Minute}},
			want:    signingkey.Policy{RotationInterval: time.Hour, PublishAhead: 10 * time.Minute, Skew: 5 * time.Minute},
		},
		"sped up": {
			speedUp: 300, cache: 1,
			signing: v1alpha1.Signing{RotationInterval: &metav1.Duration{Duration: time.Hour}, PublishAhead: &metav1.Duration{Duration: 10 * time.Minute}},
			want:    signingkey.Policy{RotationInterval: 12 * time.Second, PublishAhead: 2 * time.Second, Skew: time.Second},
		},
		"sped up very much": {
			speedUp: 3600, cache: 0,
			signing: v1alpha1.Signing{RotationInterval: &metav1.Duration{Duration: time.Hour}},
			want:    signingkey.Policy{RotationInterval: time.Second, PublishAhead: 500 * time.Millisecond, Skew: 5 * time.Minute / 3600},
		},
	} {
		t.Run(name, func(t *testing.T) {
			paced := instance()
			paced.Testing.SpeedUp = test.speedUp
			d, err := decide(observed{realm: acme(func(r *v1alpha1.Realm) { r.Spec.Signing = test.signing })}, paced, now, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Algorithm, test.want.TokenLifetime = signingkey.ES256, 5*time.Minute
			if diff := cmp.Diff(test.want, d.policy); diff != "" || d.record.KeyCacheSeconds != test.cache {
				t.Errorf("keys are cached for %d s, want %d; policy (-want +got):\n%s", d.record.KeyCacheSeconds, test.cache, diff)
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

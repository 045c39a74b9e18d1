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
	"github.com/realmkeeper/realmkeeper/internal/apply"
	"github.com/realmkeeper/realmkeeper/internal/config"
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

// recorded returns the record that the decision on a Realm leads to.
func recorded(t *testing.T, realm *v1alpha1.Realm, at time.Time, before *corev1.Secret) *corev1.Secret {
	t.Helper()
	d, err := decide(observed{realm: realm, record: before}, instance(), at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
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
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, 5 * time.Minute, 0},
		},
		"nothing to do": {
			acme(unchanged), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, 5 * time.Minute, 0},
		},
		"suspended": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Suspend = true }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", true, 5 * time.Minute, 0},
		},
		"another algorithm is published ahead": {
			acme(func(r *v1alpha1.Realm) { r.Spec.Signing.Algorithm = v1alpha1.SigningAlgorithmEdDSA }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active, EdDSA Pending", false, 5 * time.Minute, time.Hour},
		},
		"own lifetime": {
			acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &metav1.Duration{Duration: time.Hour} }), settled,
			outcome{v1alpha1.ReasonAccepted, "ES256 Active", false, time.Hour, 0},
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

// A change of the algorithm is a rotation: the successor signs when it has been published
// long enough, and the predecessor stays while tokens of its may be valid.
func TestAlgorithmChangeOverTime(t *testing.T) {
	realm := acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &metav1.Duration{Duration: time.Hour} })
	secret := recorded(t, realm, now.Add(-time.Minute), nil)
	realm.Spec.Signing.Algorithm = v1alpha1.SigningAlgorithmES384
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{0, "ES256 Active, ES384 Pending"},
		{publishAhead - time.Second, "ES256 Active, ES384 Pending"},
		{publishAhead, "ES256 Retiring, ES384 Active"},
		{publishAhead + time.Hour + signingkey.Skew - time.Second, "ES256 Retiring, ES384 Active"},
		{publishAhead + time.Hour + signingkey.Skew, "ES384 Active"},
	} {
		secret = recorded(t, realm, now.Add(step.after), secret)
		body, err := record.ReadRealm(secret)
		if err != nil {
			t.Fatal(err)
		}
		if got := states(body.Keys); got != step.want {
			t.Errorf("after %s the keys are %q, want %q", step.after, got, step.want)
		}
	}
}

func states(keys []signingkey.Key) string {
	var shown []string
	for _, k := range keys {
		shown = append(shown, string(k.Algorithm)+" "+string(k.State))
	}
	return strings.Join(shown, ", ")
}

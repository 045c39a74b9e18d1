package realm

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// A record has the generation of the Realm that it implements, and the version from which on clients have
// had what it contains apart from keys.
func TestBasis(t *testing.T) {
	unchanged, rotate := func(*v1alpha1.Realm) {}, func(r *v1alpha1.Realm) { r.Spec.Signing.RotateAfter = &metav1.Time{Time: now.Add(time.Hour)} }
	next := func(change func(*v1alpha1.Realm)) func(*v1alpha1.Realm) {
		return func(r *v1alpha1.Realm) {
			r.Generation = 4
			change(r)
		}
	}
	first := firstDecision(t, acme(unchanged), now)
	active := func(content string) *corev1.Secret {
		secret := settled(t, acme(unchanged), sealing.Off)
		body := testkit.Value(record.ReadRealm(secret))(t)
		body.Basis.Content = content
		return written(t, acme(unchanged), decision{record: &body})
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Realm)
		record *corev1.Secret
		want   record.Basis
	}{
		"new":                          {unchanged, nil, record.Basis{Generation: 3}},
		"first key is active":          {unchanged, written(t, acme(unchanged), first), record.Basis{Generation: 3}},
		"unchanged":                    {unchanged, active(""), record.Basis{Generation: 3}},
		"unchanged since an edit":      {unchanged, active("5"), record.Basis{Generation: 3, Content: "5"}},
		"edit without effect":          {next(unchanged), active(""), record.Basis{Generation: 4, Content: "10"}},
		"another edit without effect":  {next(unchanged), active("5"), record.Basis{Generation: 4, Content: "5"}},
		"rotation":                     {next(rotate), active(""), record.Basis{Generation: 4, Content: "10"}},
		"rotation of another content":  {next(rotate), active("5"), record.Basis{Generation: 4, Content: "5"}},
		"suspended":                    {next(func(r *v1alpha1.Realm) { r.Spec.Suspend = true }), active("5"), record.Basis{Generation: 4}},
		"suspended during a rotation":  {next(func(r *v1alpha1.Realm) { rotate(r); r.Spec.Suspend = true }), active("5"), record.Basis{Generation: 4}},
		"rejected, which disables it":  {next(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: 2 * time.Hour} }), active("5"), record.Basis{Generation: 4}},
		"restored, without generation": {unchanged, withoutBasis(t, active("")), record.Basis{Generation: 3, Content: "10"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observed{realm: acme(test.change), record: test.record, state: acknowledgement.Acknowledged}
			if seen.record != nil {
				seen.record.ResourceVersion = "10"
			}
			d := testkit.Value(decide(seen, instance(), now.Add(2*time.Hour), rand.Reader))(t)
			if diff := cmp.Diff(test.want, d.record.Basis); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// withoutBasis returns a record as a restore writes it.
func withoutBasis(t *testing.T, secret *corev1.Secret) *corev1.Secret {
	t.Helper()
	body := testkit.Value(record.ReadRealm(secret))(t)
	body.Basis = record.Basis{}
	return written(t, acme(func(*v1alpha1.Realm) {}), decision{record: &body})
}

// A Realm that is older than its record changes nothing.
func TestOlderRealmIsInconclusive(t *testing.T) {
	suspended := acme(func(r *v1alpha1.Realm) { r.Generation, r.Spec.Suspend = 4, true })
	secret := recorded(t, suspended, now, nil)
	for name, change := range map[string]func(*v1alpha1.Realm){
		"accepted": func(*v1alpha1.Realm) {},
		"rejected": func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: 2 * time.Hour} },
	} {
		d, err := decide(observed{realm: acme(change), record: secret, state: acknowledgement.Acknowledged}, instance(), now, rand.Reader)
		if err != nil || !d.inconclusive || d.record != nil {
			t.Errorf("%s: inconclusive %t, record %v, error %v", name, d.inconclusive, d.record, err)
		}
	}
}

// A step of the keys that can't be undone waits for the confirmation that every token server serves them.
func TestUnconfirmedStepWaits(t *testing.T) {
	realm := acme(func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: time.Hour} })
	secret := written(t, realm, firstDecision(t, realm, now))
	for _, step := range []struct {
		after             time.Duration
		algorithm         v1alpha1.SigningAlgorithm
		unconfirmed, want string
		wantIrreversible  bool
	}{
		{after: time.Second, unconfirmed: "ES256 Pending", want: "ES256 Active", wantIrreversible: true},
		{after: 2 * time.Second, algorithm: "EdDSA", unconfirmed: "ES256 Active, EdDSA Pending", want: "ES256 Active, EdDSA Pending"},
		{after: 3 * time.Second, algorithm: "EdDSA", unconfirmed: "ES256 Active, EdDSA Pending", want: "ES256 Active, EdDSA Pending", wantIrreversible: true},
		{after: 2 * time.Hour, algorithm: "EdDSA", unconfirmed: "ES256 Active, EdDSA Pending", want: "ES256 Retiring, EdDSA Active", wantIrreversible: true},
		{after: 3 * time.Hour, algorithm: "EdDSA", unconfirmed: "ES256 Retiring, EdDSA Active", want: "ES256 Retiring, EdDSA Active", wantIrreversible: true},
		{after: 6 * time.Hour, algorithm: "EdDSA", unconfirmed: "EdDSA Active", want: "EdDSA Active"},
	} {
		realm.Spec.Signing.Algorithm = step.algorithm
		seen := observed{realm: realm, record: secret, state: acknowledgement.Acknowledged}
		d := testkit.Value(decide(seen, instance(), now.Add(step.after), rand.Reader))(t)
		if states(d.record.Keys) != step.want || d.irreversible != step.wantIrreversible {
			t.Errorf("after %s: keys %s, irreversible %t", step.after, states(d.record.Keys), d.irreversible)
		}
		seen.unconfirmed = true
		held, err := decide(seen, instance(), now.Add(step.after), rand.Reader)
		if err != nil || states(held.record.Keys) != step.unconfirmed || held.irreversible {
			t.Errorf("unconfirmed after %s: keys %s, irreversible %t, error %v", step.after, states(held.record.Keys), held.irreversible, err)
		}
		for i := range held.record.Keys {
			if k := &held.record.Keys[i]; step.wantIrreversible && k.State == "Retiring" && !k.RetiredAt.IsZero() {
				t.Errorf("unconfirmed after %s: key retired at %s", step.after, k.RetiredAt)
			}
		}
		secret = written(t, realm, d)
	}
}

package realm

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
)

func TestStatusShowsKeys(t *testing.T) {
	realm := acme(func(*v1alpha1.Realm) {})
	at := func(after time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(after)} }
	var secret *corev1.Secret
	for _, step := range []struct {
		after     time.Duration
		algorithm v1alpha1.SigningAlgorithm
		state     acknowledgement.State
		wantKeys  []v1alpha1.SigningKeyStatus
		wantNext  *metav1.Time
	}{
		{
			0, v1alpha1.SigningAlgorithmES256, acknowledgement.NoServer,
			[]v1alpha1.SigningKeyStatus{{Algorithm: "ES256", State: "Active", CreatedAt: *at(0), ActiveAt: at(0)}},
			at(719 * time.Hour),
		},
		{
			time.Hour, v1alpha1.SigningAlgorithmEdDSA, acknowledgement.Acknowledged,
			[]v1alpha1.SigningKeyStatus{
				{Algorithm: "ES256", State: "Active", CreatedAt: *at(0), ActiveAt: at(0)},
				{Algorithm: "EdDSA", State: "Pending", CreatedAt: *at(time.Hour)},
			},
			nil,
		},
		{
			2 * time.Hour, v1alpha1.SigningAlgorithmEdDSA, acknowledgement.Acknowledged,
			[]v1alpha1.SigningKeyStatus{
				{Algorithm: "ES256", State: "Active", CreatedAt: *at(0), ActiveAt: at(0)},
				{Algorithm: "EdDSA", State: "Pending", CreatedAt: *at(time.Hour)},
			},
			at(3 * time.Hour),
		},
		{
			3 * time.Hour, v1alpha1.SigningAlgorithmEdDSA, acknowledgement.Waiting,
			[]v1alpha1.SigningKeyStatus{
				{Algorithm: "ES256", State: "Retiring", CreatedAt: *at(0), ActiveAt: at(0)},
				{Algorithm: "EdDSA", State: "Active", CreatedAt: *at(time.Hour), ActiveAt: at(3 * time.Hour)},
			},
			at((3 + 719) * time.Hour),
		},
		{
			4 * time.Hour, v1alpha1.SigningAlgorithmEdDSA, acknowledgement.Acknowledged,
			[]v1alpha1.SigningKeyStatus{
				{Algorithm: "ES256", State: "Retiring", CreatedAt: *at(0), ActiveAt: at(0), RemoveAt: at(4*time.Hour + 10*time.Minute)},
				{Algorithm: "EdDSA", State: "Active", CreatedAt: *at(time.Hour), ActiveAt: at(3 * time.Hour)},
			},
			at(4*time.Hour + 10*time.Minute),
		},
	} {
		realm.Spec.Signing.Algorithm = step.algorithm
		d, err := decide(observed{realm: realm, record: secret, state: step.state}, instance(), now.Add(step.after), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		waiting := acknowledgement.Waiting
		got := status(realm, d, &waiting, instance(), now)
		if diff := cmp.Diff(step.wantKeys, got.SigningKeys, cmpopts.IgnoreFields(v1alpha1.SigningKeyStatus{}, "KeyID")); diff != "" {
			t.Errorf("keys after %s (-want +got):\n%s", step.after, diff)
		}
		if diff := cmp.Diff(step.wantNext, got.NextKeyTransitionTime); diff != "" {
			t.Errorf("next transition after %s (-want +got):\n%s", step.after, diff)
		}
		secret = written(t, realm, d)
	}
}

// A key rotation does not change the generation that the token servers serve, so the Realm stays
// Ready. Every other change makes it Progressing.
func TestRealmStaysReadyDuringKeyRotation(t *testing.T) {
	programmed := func(generation int64, status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: string(v1alpha1.ConditionProgrammed), Status: status, ObservedGeneration: generation}}
	}
	settled := recorded(t, acme(func(*v1alpha1.Realm) {}), now.Add(-time.Hour), nil)
	rotate := func(r *v1alpha1.Realm) { r.Spec.Signing.RotateAfter = &metav1.Time{Time: now} }
	for name, test := range map[string]struct {
		before     []metav1.Condition
		record     *corev1.Secret
		change     func(*v1alpha1.Realm)
		state      acknowledgement.State
		wantStatus metav1.ConditionStatus
	}{
		"rotation":                        {programmed(3, "True"), settled, rotate, acknowledgement.Waiting, "True"},
		"token servers behind":            {programmed(3, "True"), settled, func(*v1alpha1.Realm) {}, acknowledgement.Waiting, "True"},
		"no token server":                 {programmed(3, "True"), settled, rotate, acknowledgement.NoServer, "False"},
		"first record":                    {nil, nil, func(*v1alpha1.Realm) {}, acknowledgement.Waiting, "Unknown"},
		"not Programmed before":           {programmed(3, "Unknown"), settled, rotate, acknowledgement.Waiting, "Unknown"},
		"older generation was Programmed": {programmed(2, "True"), settled, rotate, acknowledgement.Waiting, "Unknown"},
		"rotation and a different change": {programmed(3, "True"), settled, func(r *v1alpha1.Realm) {
			rotate(r)
			r.Spec.Scopes = []string{"read"}
		}, acknowledgement.Waiting, "Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			realm := acme(test.change)
			realm.Status.Conditions = test.before
			d, err := decide(observed{realm: realm, record: test.record, state: test.state}, instance(), now, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			got := status(realm, d, &test.state, instance(), now)
			for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
				if c := meta.FindStatusCondition(got.Conditions, string(kind)); c == nil || c.Status != test.wantStatus {
					t.Errorf("%s is %v, want %s", kind, c, test.wantStatus)
				}
			}
		})
	}
}

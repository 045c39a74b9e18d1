package realm

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
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
			[]v1alpha1.SigningKeyStatus{{Algorithm: "ES256", State: "Pending", CreatedAt: *at(0)}},
			at(signingkey.FirstKeyWait),
		},
		{
			0, v1alpha1.SigningAlgorithmES256, acknowledgement.Acknowledged,
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
				{Algorithm: "ES256", State: "Active", CreatedAt: *at(0), ActiveAt: at(0)},
				{Algorithm: "EdDSA", State: "Pending", CreatedAt: *at(time.Hour)},
			},
			nil,
		},
		{
			3 * time.Hour, v1alpha1.SigningAlgorithmEdDSA, acknowledgement.Acknowledged,
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
		d := testkit.Value(decide(observed{realm: realm, record: secret, state: step.state}, instance(), now.Add(step.after), rand.Reader))(t)
		waiting := acknowledgement.Waiting
		got := status(realm, d, &waiting, instance(), now)
		testkit.Diff(t, "keys after "+step.after.String(), step.wantKeys, got.SigningKeys, cmpopts.IgnoreFields(v1alpha1.SigningKeyStatus{}, "KeyID"))
		if diff := cmp.Diff(step.wantNext, got.NextKeyTransitionTime); diff != "" {
			t.Errorf("next transition after %s (-want +got):\n%s", step.after, diff)
		}
		secret = written(t, realm, d)
	}
}

// A Realm whose record is gone needs user action, and its status still lists the keys that it lost.
func TestLostKeysStayInStatus(t *testing.T) {
	realm := acme(func(r *v1alpha1.Realm) {
		r.Status.SigningKeys = []v1alpha1.SigningKeyStatus{{KeyID: "a", State: "Active", CreatedAt: metav1.NewTime(now.Add(-time.Hour))}}
	})
	d := testkit.Value(decide(observed{realm: realm}, instance(), now, rand.Reader))(t)
	got := status(realm, d, nil, instance(), now)
	testkit.Diff(t, "keys", realm.Status.SigningKeys, got.SigningKeys)
	for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		if reason := reasonOf(got, kind); reason != "False KeysMissing" {
			t.Errorf("%s is %s", kind, reason)
		}
	}
	if reason := reasonOf(got, v1alpha1.ConditionStalled); reason != "True KeysMissing" {
		t.Errorf("Stalled is %s", reason)
	}
}

// A Realm without an Active key is never Ready, and one whose Active key a live token server can't decrypt
// says which.
func TestReadyDependsOnTheActiveKey(t *testing.T) {
	realm := acme(func(*v1alpha1.Realm) {})
	for name, test := range map[string]struct {
		record         *corev1.Secret
		state          acknowledgement.State
		unsigned       []string
		wantProgrammed string
		wantReady      string
		wantMessage    string
	}{
		"first key is pending":           {written(t, realm, firstDecision(t, realm, now)), acknowledgement.Waiting, nil, "Unknown Progressing", "Unknown Progressing", "load the first signing key"},
		"first key without token server": {written(t, realm, firstDecision(t, realm, now)), acknowledgement.NoServer, nil, "False NoTokenServer", "False NoTokenServer", ""},
		"not decrypted by two":           {encrypted(t, realm), acknowledgement.Acknowledged, []string{"a", "b"}, "True Ready", "False KMSUnavailable", "signing key: a, b."},
		"in plaintext":                   {settled(t, realm, sealing.Off), acknowledgement.Acknowledged, []string{"a"}, "True Ready", "True Ready", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := testkit.Value(decide(observed{realm: realm, record: test.record, state: test.state, unsigned: test.unsigned}, instance(), now, rand.Reader))(t)
			s := status(realm, d, &test.state, instance(), now)
			if got := reasonOf(s, v1alpha1.ConditionProgrammed); got != test.wantProgrammed {
				t.Errorf("Programmed is %s, want %s", got, test.wantProgrammed)
			}
			if got := reasonOf(s, v1alpha1.ConditionReady); got != test.wantReady {
				t.Errorf("Ready is %s, want %s", got, test.wantReady)
			}
			if c := meta.FindStatusCondition(s.Conditions, string(v1alpha1.ConditionReady)); !strings.Contains(c.Message, test.wantMessage) {
				t.Errorf("the message is %s", c.Message)
			}
		})
	}
}

package realm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
)

func TestStatusShowsKeys(t *testing.T) {
	realm := acme(func(*v1beta1.Realm) {})
	after := func(at *metav1.Time) string {
		if at == nil {
			return "-"
		}
		return at.Sub(now).String()
	}
	var secret *corev1.Secret
	for _, step := range []struct {
		after     time.Duration
		algorithm v1beta1.SigningAlgorithm
		state     acknowledgement.State
		want      string // each key with the times of its creation, activation, and removal, and the next transition
	}{
		{0, "ES256", acknowledgement.NoServer, "ES256 Pending 0s - -; 1m0s"},
		{0, "ES256", acknowledgement.Acknowledged, "ES256 Active 0s 0s -; 719h0m0s"},
		{time.Hour, "EdDSA", acknowledgement.Acknowledged, "ES256 Active 0s 0s -; EdDSA Pending 1h0m0s - -; -"},
		{2 * time.Hour, "EdDSA", acknowledgement.Acknowledged, "ES256 Active 0s 0s -; EdDSA Pending 1h0m0s - -; 3h0m0s"},
		{3 * time.Hour, "EdDSA", acknowledgement.Waiting, "ES256 Active 0s 0s -; EdDSA Pending 1h0m0s - -; -"},
		{3 * time.Hour, "EdDSA", acknowledgement.Acknowledged, "ES256 Retiring 0s 0s -; EdDSA Active 1h0m0s 3h0m0s -; 722h0m0s"},
		{4 * time.Hour, "EdDSA", acknowledgement.Acknowledged, "ES256 Retiring 0s 0s 4h10m0s; EdDSA Active 1h0m0s 3h0m0s -; 4h10m0s"},
	} {
		realm.Spec.Signing.Algorithm = step.algorithm
		d := decidedAt(t, observed{realm: realm, record: secret, state: step.state}, now.Add(step.after))
		s := status(realm, d, new(acknowledgement.Waiting), instance())
		var got strings.Builder
		for _, k := range s.SigningKeys {
			fmt.Fprintf(&got, "%s %s %s %s %s; ", k.Algorithm, k.State, after(&k.CreationTime), after(k.ActivationTime), after(k.RemovalTime))
		}
		testkit.Diff(t, "keys after "+step.after.String(), step.want, got.String()+after(s.NextKeyTransitionTime))
		secret = written(t, realm, d)
	}
}

// A Realm whose record is gone needs user action, and its status still lists the keys that it lost.
func TestLostKeysStayInStatus(t *testing.T) {
	realm := acme(func(r *v1beta1.Realm) {
		r.Status.SigningKeys = []v1beta1.SigningKeyStatus{{KeyID: "a", State: "Active", CreationTime: metav1.NewTime(now.Add(-time.Hour))}}
	})
	d := decidedAt(t, observed{realm: realm}, now)
	got := status(realm, d, nil, instance())
	testkit.Diff(t, "keys", realm.Status.SigningKeys, got.SigningKeys)
	for _, kind := range []v1beta1.ConditionType{v1beta1.ConditionProgrammed, v1beta1.ConditionReady} {
		if reason := reasonOf(got, kind); reason != "False KeysMissing" {
			t.Errorf("%s is %s", kind, reason)
		}
	}
	if reason := reasonOf(got, v1beta1.ConditionStalled); reason != "True KeysMissing" {
		t.Errorf("Stalled is %s", reason)
	}
}

// A Realm without an Active key is never Ready, and one whose Active key a live token server can't decrypt
// says which.
func TestReadyDependsOnTheActiveKey(t *testing.T) {
	realm := acme(func(*v1beta1.Realm) {})
	for name, test := range map[string]struct {
		record            *corev1.Secret
		state             acknowledgement.State
		undecryptedActive []string
		wantProgrammed    string
		wantReady         string
		wantMessage       string
	}{
		"first key is pending":           {written(t, realm, firstDecision(t, realm, now)), acknowledgement.Waiting, nil, "Unknown Progressing", "Unknown Progressing", "load the first signing key"},
		"first key without token server": {written(t, realm, firstDecision(t, realm, now)), acknowledgement.NoServer, nil, "False NoTokenServer", "False NoTokenServer", ""},
		"not decrypted by two":           {encrypted(t, realm), acknowledgement.Acknowledged, []string{"a", "b"}, "True Ready", "False KMSUnavailable", "signing key: a, b."},
		"in plaintext":                   {settled(t, realm, sealing.Off), acknowledgement.Acknowledged, []string{"a"}, "True Ready", "True Ready", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := decidedAt(t, observed{realm: realm, record: test.record, state: test.state, undecryptedActive: test.undecryptedActive}, now)
			s := status(realm, d, &test.state, instance())
			if got := reasonOf(s, v1beta1.ConditionProgrammed); got != test.wantProgrammed {
				t.Errorf("Programmed is %s, want %s", got, test.wantProgrammed)
			}
			if got := reasonOf(s, v1beta1.ConditionReady); got != test.wantReady {
				t.Errorf("Ready is %s, want %s", got, test.wantReady)
			}
			if c := meta.FindStatusCondition(s.Conditions, string(v1beta1.ConditionReady)); !strings.Contains(c.Message, test.wantMessage) {
				t.Errorf("the message is %s", c.Message)
			}
		})
	}
}

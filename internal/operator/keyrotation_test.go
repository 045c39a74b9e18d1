package operator_test

import (
	"flag"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
	testload "github.com/realmkeeper/realmkeeper/test/framework/load"
)

// How far the load tests go; docs/operations.md says how to go further.
var (
	rotations = flag.Int("rotations", 2, "how many rotations the load goes through, at least")
	tokens    = flag.Int64("tokens", 1000, "how many tokens the load gets, at least")
)

// Signing keys rotate by schedule while clients get tokens all the time, and the operator
// is killed in between: no call fails, no token is refused by a verifier that caches keys
// for as long as it may, and neither realm nor client is unready at any moment.
func TestKeyRotationUnderLoad(t *testing.T) {
	env := testenv.Start(t)
	// A key signs for 8 s, and is published 4 s ahead; verifiers may cache it for 2 s.
	install := testinstall.New(t, env, testinstall.Settings{DefaultTokenLifetime: "10s", SpeedUp: 450})
	install.StartOperator(t, "")
	install.StartTokenServer(t)
	install.StartTokenServer(t)
	realm := testinstall.Realm("acme", func(r *v1alpha1.Realm) {
		r.Spec.Signing.RotationInterval = &metav1.Duration{Duration: time.Hour}
		r.Spec.Signing.PublishAhead = &metav1.Duration{Duration: 30 * time.Minute}
	})
	c := testinstall.ApiClient(env.Namespace(t), "billing", realm.Name)
	install.Create(t, realm, c)
	converges(t, install, c)
	install.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
	consumer := install.ConsumerSecret(t, c)

	load := testload.Start(t, testload.Options{
		Servers: install.Servers(), Workers: 8,
		Consumer: func() *corev1.Secret { return consumer },
	})
	began := time.Now()
	for turned := 0; turned < *rotations || load.Result().Tokens < *tokens; turned++ {
		awaitAnotherKey(t, install, realm, c)
		if turned == (*rotations-1)/2 {
			install.KillAndRestartOperator(t)
		}
		if r := load.Result(); r.Failed > 0 {
			break
		}
	}
	r := load.Stop()
	if got := install.OperatorMetric(t, `realmkeeper_rotations_total{kind="signing_key",outcome="success"}`); got == "0" || got == "" {
		t.Errorf("the operator counts %q rotations", got)
	}
	next, err := strconv.ParseFloat(install.OperatorMetric(t, `realmkeeper_realm_next_key_rotation_timestamp_seconds{realm="acme"}`), 64)
	if wait := time.Until(time.Unix(int64(next), 0)); err != nil || wait.Abs() > time.Minute {
		t.Errorf("the operator tells the next rotation for %s from now, %v", wait, err)
	}
	t.Logf("%d keys signed %d tokens in %s; %d were verified again before they expired", len(r.Keys), r.Tokens, time.Since(began).Round(time.Second), r.Verified)
	if r.Failed > 0 || len(r.Keys) <= *rotations || r.Tokens < *tokens {
		t.Errorf("%d failed, %d keys signed %d tokens, want %d and %d; the first failures: %q", r.Failed, len(r.Keys), r.Tokens, *rotations, *tokens, r.Failures)
	}
}

// A key signs only when every live token server publishes it: one that hangs holds it up,
// and the one before signs on.
func TestHangingServerHoldsUpAKey(t *testing.T) {
	env := testenv.Start(t)
	const ahead = time.Second
	install := testinstall.New(t, env, testinstall.Settings{SpeedUp: int(time.Hour / ahead)})
	install.StartOperator(t, "")
	install.StartTokenServer(t)
	hanging := install.StartTokenServer(t)
	realm := testinstall.Realm("acme")
	install.Create(t, realm)
	install.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)

	hanging.Freeze(t)
	testinstall.Change(t, install, realm, func(r *v1alpha1.Realm) {
		r.Spec.Signing.RotateAfter = &metav1.Time{Time: r.Status.SigningKeys[0].CreatedAt.Add(time.Second)}
	})
	awaitKeys(t, install, realm, v1alpha1.SigningKeyActive, v1alpha1.SigningKeyPending)
	made := realm.Status.SigningKeys[1].CreatedAt
	testinstall.Eventually(t, "the new key to be old enough to sign", func() error {
		if err := install.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			return err
		}
		if states := keyStates(realm); states[0] != v1alpha1.SigningKeyActive {
			t.Fatalf("while a token server hangs the keys are %v", states)
		}
		if age := time.Since(made.Time); age < 3*ahead {
			return errorf("it is %s old", age)
		}
		return nil
	})
	hanging.Thaw(t)
	awaitKeys(t, install, realm, v1alpha1.SigningKeyRetiring, v1alpha1.SigningKeyActive)
}

// awaitKeys waits until the keys of a realm are in these states.
func awaitKeys(t *testing.T, install *testinstall.Installation, realm *v1alpha1.Realm, want ...v1alpha1.SigningKeyState) {
	t.Helper()
	testinstall.Eventually(t, "other keys", func() error {
		if err := install.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			return err
		}
		if got := keyStates(realm); !slices.Equal(got, want) {
			return errorf("the keys are %v, want %v", got, want)
		}
		return nil
	})
}

// awaitAnotherKey waits until another key signs than the realm shows now, while realm and
// client are Ready.
func awaitAnotherKey(t *testing.T, install *testinstall.Installation, realm *v1alpha1.Realm, c *v1alpha1.ApiClient) {
	t.Helper()
	before := activeKey(realm)
	testinstall.Eventually(t, "another key than "+before, func() error {
		for _, obj := range []client.Object{realm, c} {
			if err := install.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(testinstall.Conditions(obj), string(v1alpha1.ConditionReady)) {
				t.Fatalf("%T is not Ready while keys turn: %+v", obj, testinstall.Conditions(obj))
			}
		}
		if activeKey(realm) == before {
			return errorf("it still signs; the keys are %+v, next %s", realm.Status.SigningKeys, realm.Status.NextKeyTransitionTime)
		}
		return nil
	})
}

func activeKey(realm *v1alpha1.Realm) string {
	for _, k := range realm.Status.SigningKeys {
		if k.State == v1alpha1.SigningKeyActive {
			return k.KeyID
		}
	}
	return ""
}

package rotation_test

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	load "github.com/realmkeeper/realmkeeper/test/framework/load"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Minimum size of the load tests. CONTRIBUTING.md describes longer runs.
var (
	rotations = flag.Int("rotations", 2, "Minimum number of rotations under load")
	tokens    = flag.Int64("tokens", 1000, "Minimum number of tokens under load")
	perSecond = flag.Float64("rate", 40, "Maximum number of tokens per second")
)

// Signing keys rotate on schedule while clients continuously request tokens, and the operator is
// killed once. No request fails, and no token is rejected by verifiers that cache keys for as long
// as allowed. The realm and the client stay Ready.
func TestKeyRotationUnderLoad(t *testing.T) {
	cluster := env.Start(t)
	// A key is published 4 s before it becomes active and signs for 8 s. Verifiers may
	// cache it for 2 s.
	inst := install.New(t, cluster, install.Settings{DefaultTokenLifetime: "10s", SpeedUp: 450})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	realm := install.Realm("acme", func(r *v1beta1.Realm) {
		r.Spec.Signing.RotationInterval = &v1beta1.Duration{Duration: time.Hour}
		r.Spec.Signing.PublishAhead = &v1beta1.Duration{Duration: 30 * time.Minute}
	})
	c := install.ApiClient(cluster.Namespace(t), "billing", realm.Name)
	inst.Create(t, realm, c)
	scenario.AwaitUsable(t, inst, c)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	credentials := inst.CredentialsSecret(t, c)

	load := load.Start(t, load.Options{
		Servers: inst.Servers(), Workers: 8, PerSecond: *perSecond,
		Credentials: func() *corev1.Secret { return credentials },
	})
	began := time.Now()
	for rotated := 0; rotated < *rotations || load.Result().Tokens < *tokens; rotated++ {
		awaitActiveKeyChange(t, inst, realm, c)
		if rotated == (*rotations-1)/2 {
			inst.KillAndRestartOperator(t)
		}
		if r := load.Result(); r.Failed > 0 {
			break
		}
	}
	r := load.Stop()
	if got := inst.OperatorMetric(t, `realmkeeper_rotations_total{kind="signing_key",outcome="success"}`); got == "0" || got == "" {
		t.Errorf("the operator counts %q rotations", got)
	}
	next, err := strconv.ParseFloat(inst.OperatorMetric(t, `realmkeeper_realm_next_key_rotation_timestamp_seconds{realm="acme"}`), 64)
	if wait := time.Until(time.Unix(int64(next), 0)); err != nil || wait.Abs() > time.Minute {
		t.Errorf("the operator reports the next rotation in %s: %v", wait, err)
	}
	t.Logf("%d keys signed %d tokens in %s; %d were verified again before they expired", len(r.Keys), r.Tokens, time.Since(began).Round(time.Second), r.Verified)
	if r.Failed > 0 || len(r.Keys) <= *rotations || r.Tokens < *tokens {
		t.Errorf("%d requests failed, %d keys signed %d tokens, want more than %d and at least %d; first failures: %q", r.Failed, len(r.Keys), r.Tokens, *rotations, *tokens, r.Failures)
	}
}

// awaitActiveKeyChange waits until a different key is active, and checks that the realm and the
// client stay Ready.
func awaitActiveKeyChange(t *testing.T, inst *install.Installation, realm *v1beta1.Realm, c *v1beta1.ApiClient) {
	t.Helper()
	before := activeKey(realm)
	install.Eventually(t, "an active key other than "+before, func() error {
		for _, obj := range []client.Object{realm, c} {
			if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(install.Conditions(obj), string(v1beta1.ConditionReady)) {
				t.Fatalf("%T is not Ready while keys rotate: %+v", obj, install.Conditions(obj))
			}
		}
		if activeKey(realm) == before {
			return fmt.Errorf("it is still active; the keys are %+v, and the next transition is at %s", realm.Status.SigningKeys, realm.Status.NextKeyTransitionTime)
		}
		return nil
	})
}

func activeKey(realm *v1beta1.Realm) string {
	for _, k := range realm.Status.SigningKeys {
		if k.State == v1beta1.SigningKeyActive {
			return k.KeyID
		}
	}
	return ""
}

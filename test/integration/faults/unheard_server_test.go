//go:build nightly

package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// After an outage of the API server that lasts longer than a Lease, the heartbeats of a live token server
// are still held up, and it doesn't receive changes. The operator doesn't forget it. With --max-staleness, it
// is unready until it is current again.
func TestOutageForgetsNoServer(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{})
	inst.MaxStaleness = heartbeat.Duration
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	proxy := inst.StartFaultProxy(t, install.Faults{})
	unheard := inst.LaunchTokenServer(t, inst.KubeconfigFor(t, proxy.URL))
	unheard.AwaitReady(t)
	inst.Create(t, install.Realm("acme"))
	rotated, suspended := rotatingClient(t, inst, "rotated"), rotatingClient(t, inst, "suspended")
	values := startDelivered(t, inst, rotated, shortOverlap)

	held := proxy.Hold(renewsLease)
	thaw := proxy.FreezeWatches("secrets")
	defer thaw()
	inst.Env.StopAPIServer(t)
	stopped := time.Now()
	install.Eventually(t, "an outage that is longer than a Lease", func() error {
		if lasts := time.Since(stopped); lasts < heartbeat.Duration+time.Second {
			return fmt.Errorf("it has lasted %s", lasts)
		}
		return nil
	})
	inst.Env.StartAPIServer(t)
	scenario.RotateSecret(t, inst, rotated)
	before := current(t, inst, rotated)
	install.Change(t, inst, suspended, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	inst.AwaitReady(t, suspended, metav1.ConditionFalse, v1beta1.ReasonSuspended)
	awaitRenewals(t, inst, inst.RecordsNamespace, "operator", 2)
	lease := &coordinationv1.Lease{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: heartbeat.LeaseName(unheard.Name)}, lease); err != nil {
		t.Fatal(err)
	}
	if beat, err := heartbeat.Parse(lease); err != nil || beat.Dead {
		t.Errorf("the live server is marked as dead: %t, %v", beat.Dead, err)
	}
	if current(t, inst, rotated) != before {
		t.Error("the secret was delivered before every server had its verifier")
	}
	expectNotProgrammed(t, inst, suspended)
	install.Eventually(t, "the server that doesn't receive changes to be unready", func() error {
		if err := unheard.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "--max-staleness") {
			return fmt.Errorf("/readyz reports: %w", err)
		}
		return nil
	})

	thaw()
	held.Release()
	unheard.AwaitReady(t)
	scenario.AwaitSecretRotated(t, inst, rotated)
	awaitProgrammed(t, inst, suspended)
	inst.AwaitTokens(t, inst.CredentialsSecret(t, suspended), false)
	values.stop()
}

// isProgrammed reads an object and reports whether it is Programmed in its current generation.
func isProgrammed(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) bool {
	t.Helper()
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	programmed := meta.FindStatusCondition(c.Status.Conditions, string(v1beta1.ConditionProgrammed))
	return programmed != nil && programmed.Status == metav1.ConditionTrue && programmed.ObservedGeneration == c.Generation
}

func expectNotProgrammed(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) {
	t.Helper()
	if isProgrammed(t, inst, c) {
		t.Errorf("%s is Programmed, although a live server has not loaded its record", c.Name)
	}
}

// awaitProgrammed waits until every live token server has loaded the current generation of a client.
func awaitProgrammed(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) {
	t.Helper()
	install.Eventually(t, c.Name+" to be Programmed", func() error {
		if !isProgrammed(t, inst, c) {
			return fmt.Errorf("its conditions are %v", c.Status.Conditions)
		}
		return nil
	})
}

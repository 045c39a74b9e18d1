package faults_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
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

// A token server has listed the records, and its first heartbeat with a version is held up. Until the
// operator hears from it, no secret is delivered that it doesn't know.
func TestJoiningServerKnowsDeliveredSecrets(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	c := rotatingClient(t, inst, "billing")
	proxy := inst.StartFaultProxy(t, install.Faults{})
	held := proxy.Hold(func(r *http.Request, body []byte) bool {
		return renewsLease(r, body) && bytes.Contains(body, []byte(heartbeat.LoadedAnnotation))
	})
	inst.LaunchTokenServer(t, inst.KubeconfigFor(t, proxy.URL)).AwaitReady(t)
	install.Eventually(t, "the first heartbeat with a version", held.Arrived)
	thaw := proxy.FreezeWatches("secrets")
	defer thaw()
	values := startDelivered(t, inst, c, shortOverlap)

	before := current(t, inst, c)
	scenario.RotateSecret(t, inst, c)
	install.Eventually(t, "the next secret", func() error {
		if secrets := clientRecord(t, inst, c).Secrets; len(secrets) < 2 {
			return fmt.Errorf("the record has %d secrets", len(secrets))
		}
		return nil
	})
	awaitRenewals(t, inst, inst.RecordsNamespace, "operator", 1)
	if current(t, inst, c) != before {
		t.Error("the secret was delivered before the server that is joining had its verifier")
	}

	thaw()
	held.Release()
	scenario.AwaitSecretRotated(t, inst, c)
	scenario.AwaitUsable(t, inst, c)
	values.stop()
}

// shortOverlap is the overlap of rotatingClient.
const shortOverlap = 2 * time.Second

// rotatingClient creates a client and waits until it is usable.
func rotatingClient(t *testing.T, inst *install.Installation, name string) *v1beta1.ApiClient {
	t.Helper()
	c := install.ApiClient(inst.Env.Namespace(t), name, "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(shortOverlap) })
	inst.Create(t, c)
	scenario.AwaitUsable(t, inst, c)
	return c
}

// renewsLease reports whether a write is that of a Lease.
func renewsLease(r *http.Request, _ []byte) bool { return strings.Contains(r.URL.Path, "/leases/") }

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

package faults_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

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

// awaitRenewals waits until a Lease has been renewed the given number of times.
func awaitRenewals(t *testing.T, inst *install.Installation, namespace, name string, renewals int) {
	t.Helper()
	times := map[string]bool{}
	install.Eventually(t, fmt.Sprintf("%d renewals of Lease %s", renewals, name), func() error {
		lease := &coordinationv1.Lease{}
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, lease); err != nil {
			return err
		}
		if times[lease.Spec.RenewTime.String()] = true; len(times) <= renewals {
			return fmt.Errorf("%d renewals so far", len(times)-1)
		}
		return nil
	})
}

// clientRecord returns the record of a client.
func clientRecord(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) record.Client {
	t.Helper()
	r, err := record.ReadClient(scenario.Record(t, inst, c))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

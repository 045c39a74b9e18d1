//go:build soak

package kms_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Size of TestManyRotations, which only make soak runs.
var (
	rotations = flag.Int("kms.rotations", 10, "Number of rotations of the key encryption key in TestManyRotations")
	realms    = flag.Int("kms.realms", 100, "Number of Realms in TestManyRotations")
)

// The key encryption key and then all signing keys rotate many times under load, with many realms. No
// request fails.
func TestManyRotations(t *testing.T) {
	inst, kms := startEncrypted(t, 2)
	user := plugin.NewUser(inst.Env)
	_, c := scenario.NewClient(t, inst, "acme")
	all := []*v1alpha1.Realm{install.Realm("acme")}
	for i := range *realms - 1 {
		realm := install.Realm(fmt.Sprintf("realm-%d", i))
		inst.Create(t, realm)
		all = append(all, realm)
	}
	for _, realm := range all[1:] {
		inst.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	awaitEncrypted(t, inst, "", all...)
	clients := startLoad(t, inst, c, inst.Servers()...)
	began := time.Now()
	for n := range *rotations {
		started, id := time.Now(), kms.Rotate(t)
		rotateAll(t, inst, user, all...)
		awaitEncrypted(t, inst, id, all...)
		kms.Prune(t)
		t.Logf("rotation %d: %d realms in %s", n+1, len(all), time.Since(started).Round(time.Millisecond))
	}
	clients.expectNoFailures(t)
	t.Logf("%d rotations of %d realms in %s", *rotations, len(all), time.Since(began).Round(time.Second))
	for _, s := range inst.Servers() {
		s.KillAndRestart(t)
		s.AwaitReady(t)
	}
	scenario.AwaitUsable(t, inst, c)
}

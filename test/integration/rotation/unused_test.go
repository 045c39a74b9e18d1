package rotation_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const (
	// killedWrites is the number of writes at which the operator is killed.
	killedWrites = 12
	// betweenUses is the time between two uses of an old secret.
	betweenUses = time.Second
)

// Two clients rotate their secrets. The workload of the first one loads the new secret immediately.
// The workload of the second one keeps using the old secret. The operator is killed before and after
// its writes, and a token server is killed. Only the old secret of the first client ends.
func TestOldSecretEndsWhenUnused(t *testing.T) {
	cluster := env.Start(t)
	// One hour is scaled down to one second, but not the token lifetime. An old secret therefore ends
	// after 12 s without use, which is the token lifetime plus twice the resolution.
	inst := install.New(t, cluster, install.Settings{SpeedUp: 3600, DefaultTokenLifetime: "10s"})
	inst.StartOperator(t, "")
	kept, killed := inst.StartTokenServer(t), inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	team := cluster.Namespace(t)
	var clients []*v1alpha1.ApiClient
	for _, name := range []string{"moves", "lags"} {
		c := install.ApiClient(team, name, "acme", func(c *v1alpha1.ApiClient) {
			c.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{Rotation: v1alpha1.SecretRotation{
				EndWhenUnused: &v1alpha1.EndWhenUnused{After: &v1alpha1.Duration{Duration: time.Hour}, Max: &v1alpha1.Duration{Duration: 720 * time.Hour}},
			}}}
		})
		inst.Create(t, c)
		scenario.AwaitUsable(t, inst, c)
		clients = append(clients, c)
	}
	moves, lags := clients[0], clients[1]
	oldOfMoves, oldOfLags := inst.CredentialsSecret(t, moves), inst.CredentialsSecret(t, lags)
	uses := useUntilStopped(t, inst, oldOfLags)

	killAtWrites(t, inst)
	for _, c := range clients {
		scenario.RotateSecret(t, inst, c)
	}
	for _, old := range []*corev1.Secret{oldOfMoves, oldOfLags} {
		awaitNewSecret(t, inst, old)
	}
	killed.KillAndRestart(t)
	killed.AwaitReady(t)

	scenario.AwaitSecretRotated(t, inst, moves)
	inst.AwaitTokens(t, oldOfMoves, false)
	inst.AwaitTokens(t, inst.CredentialsSecret(t, moves), true)
	install.Eventually(t, "the status to show that the old secret is in use", func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(lags), lags); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(lags.Status.Conditions, string(v1alpha1.ConditionOldSecretInUse)) || len(lags.Status.Secrets) != 2 {
			return fmt.Errorf("the conditions are %v and the secrets are %v", lags.Status.Conditions, lags.Status.Secrets)
		}
		return nil
	})
	awaitOldSecretEvent(t, inst, lags)
	uses.stop()
	t.Logf("The old secret was used %d times", uses.count.Load())
	if a, err := install.RequestToken(t, kept, kept.Client(t), oldOfLags); err != nil || a.Status != http.StatusOK {
		t.Errorf("the old secret in use was rejected: %+v, %v", a, err)
	}
}

// killAtWrites restarts the operator so that it is killed at each of its next writes. Every second
// write takes effect before the operator is killed.
func killAtWrites(t *testing.T, inst *install.Installation) {
	t.Helper()
	var kubeconfig string
	inst.StopOperator(t)
	proxy := inst.StartFaultProxy(t, install.Faults{
		Of: func(write install.Write) install.Fault {
			switch {
			case write.Number > killedWrites:
				return install.NoFault
			case write.Number%2 == 0:
				return install.ResponseLost
			}
			return install.RequestLost
		},
		Then: func(install.Write) { inst.KillAndRestartOperatorWith(t, kubeconfig) },
	})
	kubeconfig = inst.KubeconfigFor(t, proxy.URL)
	inst.StartOperator(t, kubeconfig)
}

func awaitNewSecret(t *testing.T, inst *install.Installation, old *corev1.Secret) {
	t.Helper()
	install.Eventually(t, "a new secret in "+old.Name, func() error {
		current := &corev1.Secret{}
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(old), current); err != nil {
			return err
		}
		if scenario.ClientSecret(current) == scenario.ClientSecret(old) {
			return fmt.Errorf("%s has not changed", old.Name)
		}
		return nil
	})
}

func awaitOldSecretEvent(t *testing.T, inst *install.Installation, c *v1alpha1.ApiClient) {
	t.Helper()
	install.Eventually(t, "an Event about the old secret", func() error {
		recorded := &eventsv1.EventList{}
		if err := inst.Env.Client.List(t.Context(), recorded, client.InNamespace(c.Namespace)); err != nil {
			return err
		}
		for _, e := range recorded.Items {
			if e.Regarding.Name == c.Name && e.Reason == string(v1alpha1.EventOldSecretInUse) {
				return nil
			}
		}
		return fmt.Errorf("no such Event among %d", len(recorded.Items))
	})
}

// secretUses counts uses of a secret.
type secretUses struct {
	count atomic.Int64
	stop  func()
}

// useUntilStopped uses a secret at all token servers in turn. No token server may reject the secret,
// but a token server may be unavailable.
func useUntilStopped(t *testing.T, inst *install.Installation, credentials *corev1.Secret) *secretUses {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	u := &secretUses{stop: func() { cancel(); running.Wait() }}
	t.Cleanup(u.stop)
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		running.Go(func() {
			for ctx.Err() == nil {
				a, err := install.RequestToken(t, s, httpClient, credentials)
				switch {
				case err != nil || a.Status == http.StatusServiceUnavailable: // it is restarting
				case a.Status != http.StatusOK:
					t.Errorf("%s rejected the old secret that is in use: %+v", s.Name, a)
				default:
					u.count.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(betweenUses):
				}
			}
		})
	}
	return u
}

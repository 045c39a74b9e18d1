//go:build e2e

package e2e_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

var (
	tries  = flag.Int("e2e.tries", 1, "Number of tries of each failure in TestSuspensionAfterFailure")
	away   = flag.Duration("e2e.away", time.Second, "Duration of the outage of the API server in TestSuspensionAfterFailure")
	single = flag.Bool("e2e.single", false, "Run only one operator in TestSuspensionAfterFailure")
)

// TestSuspensionAfterFailure suspends a client just after the leader or the API server has failed. The
// suspension must take effect at each token server, and no token request of another client may fail. The
// test logs how long it took after the API server had accepted the suspension.
func TestSuspensionAfterFailure(t *testing.T) {
	needsNode(t)
	c := inUse(t)
	if *single {
		kubectl(t, "scale", "--namespace", systemNamespace, "deployment/"+operator, "--replicas=1")
		awaitRollout(t, operator)
		reusable = false // The next test needs two operators.
	}
	l := startLoad(t, c.Namespace, "load", c.Status.SecretName, "--rate", "100")
	for _, failure := range []struct {
		name string
		// fail lets something fail, and returns what repairs it after the suspension is in effect.
		fail func(t *testing.T) (repair func())
	}{
		{"leader killed", func(t *testing.T) func() {
			p := leaderPod(t)
			ctr(t, "tasks", "kill", "--signal", "SIGKILL", containerOf(t, p, "operator"))
			// The kubelet would wait longer and longer before it starts this container again.
			return func() { deletePod(t, p) }
		}},
		{"leader's Pod deleted", func(t *testing.T) func() {
			if err := cluster.Delete(t.Context(), leaderPod(t)); err != nil {
				t.Fatal(err)
			}
			return func() {}
		}},
		{"leader's node lost", func(t *testing.T) func() {
			p := leaderPod(t)
			container := containerOf(t, p, "operator")
			ctr(t, "tasks", "pause", container)
			return func() {
				ctr(t, "tasks", "resume", container)
				deletePod(t, p) // It may not have noticed yet that it no longer leads.
			}
		}},
		{fmt.Sprintf("API server away for %s", *away), func(t *testing.T) func() {
			stopAPIServer(t)
			pause(t, *away)
			node(t, "start-apiserver")
			return func() { startAPIServer(t) } // waits until it is ready
		}},
	} {
		t.Run(failure.name, func(t *testing.T) {
			if *single && strings.HasSuffix(failure.name, "lost") {
				return // The Deployment replaces the Pod of a lost node after minutes.
			}
			var took []time.Duration
			for i := range *tries {
				// Token servers count the refused requests of a client from one source, and then answer with 429.
				suspended := apiClient(c.Namespace, fmt.Sprintf("suspended-%d", i), "acme")
				create(t, suspended)
				awaitReady(t, suspended)
				secret := &corev1.Secret{}
				get(t, suspended.Namespace, suspended.Status.SecretName, secret)
				servers := tokenServers(t)
				repair := failure.fail(t)
				suspend(t, suspended)
				took = append(took, untilRefused(t, servers, secret)...)
				repair()
				remove(t, suspended)
				awaitRollout(t, operator)
			}
			slices.Sort(took)
			t.Logf("the suspension was in effect after %s (median of %d), at most %s", took[len(took)/2], len(took), took[len(took)-1])
		})
	}
	l.requireNoFailures(t)
}

func deletePod(t *testing.T, p *corev1.Pod) {
	t.Helper()
	kubectl(t, "delete", "pod", "--namespace", p.Namespace, p.Name, "--grace-period=1")
}

// leaderPod returns the Pod of the leading operator.
func leaderPod(t *testing.T) *corev1.Pod {
	t.Helper()
	var leader *corev1.Pod
	eventually(t, "a leader", func() error {
		lease := &coordinationv1.Lease{}
		if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: operator}, lease); err != nil {
			return err
		}
		for _, p := range operators(t) {
			if strings.HasPrefix(*lease.Spec.HolderIdentity, p.Name+"_") {
				leader = &p
				return nil
			}
		}
		return errNotYet
	})
	return leader
}

// suspend suspends a client as soon as the API server accepts it.
func suspend(t *testing.T, c *v1beta1.ApiClient) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))
	eventually(t, "the API server to accept the change", func() error { return cluster.Patch(t.Context(), c, patch) })
}

// untilRefused waits until each token server refuses the client, and returns how long that took for each.
func untilRefused(t *testing.T, servers []corev1.Pod, secret *corev1.Secret) []time.Duration {
	t.Helper()
	since := time.Now()
	took := make([]time.Duration, len(servers))
	eventually(t, "the token servers to refuse the client", func() error {
		for i, server := range servers {
			if took[i] > 0 {
				continue
			}
			if err := requestToken(t.Context(), server.Status.PodIP+":8443", secret); !refused(err) {
				return errors.Join(fmt.Errorf("%w: %s", errNotYet, server.Name), err)
			}
			took[i] = time.Since(since).Round(10 * time.Millisecond)
		}
		return nil
	})
	return took
}

// refused reports whether a token server answered that it doesn't accept the client.
func refused(err error) bool {
	answer := &oauth2.RetrieveError{}
	return errors.As(err, &answer) && answer.ErrorCode == "invalid_client"
}

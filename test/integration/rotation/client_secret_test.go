//go:build nightly

package rotation_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Each of 3 clients requests tokens from both token servers with its credentials Secret while its
// secret is rotated twice on schedule. No request fails, and every client stays Ready.
func TestScheduledRotationFailsNoRequest(t *testing.T) {
	const clients, rotations = 3, 2
	cluster := env.Start(t)
	// One hour is scaled down to one second. A secret is replaced after 4 s and expires a second
	// later.
	inst := install.New(t, cluster, install.Settings{SpeedUp: 3600})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	var all []*v1beta1.ApiClient
	for i := range clients {
		c := install.ApiClient(team, fmt.Sprintf("billing-%d", i), "acme", func(c *v1beta1.ApiClient) {
			c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{Rotation: v1beta1.SecretRotation{
				Interval: &v1beta1.Duration{Duration: 4 * time.Hour}, Overlap: &v1beta1.Duration{Duration: time.Hour},
			}}}
		})
		inst.Create(t, c)
		all = append(all, c)
	}
	for _, c := range all {
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	}
	requests := startRequests(t, inst, all)
	seen := map[string]map[string]bool{} // secret IDs by client
	install.Eventually(t, "enough secrets for each client", func() error {
		for _, c := range all {
			if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				return err
			}
			if ready := meta.FindStatusCondition(c.Status.Conditions, string(v1beta1.ConditionReady)); ready == nil || ready.Status != metav1.ConditionTrue {
				t.Fatalf("%s was not Ready while secrets rotated: %v", c.Name, ready)
			}
			if seen[c.Name] == nil {
				seen[c.Name] = map[string]bool{}
			}
			for _, s := range c.Status.Secrets() {
				seen[c.Name][s.Name] = true
			}
		}
		for _, c := range all {
			if secrets := len(seen[c.Name]); secrets < rotations+2 { // the first secret, and one whose rotation may not be complete
				return fmt.Errorf("%s has had %d secrets", c.Name, secrets)
			}
		}
		return nil
	})
	requests.stop()
	t.Logf("%d requests during at least %d rotations", requests.count.Load(), clients*rotations)
	if got := inst.OperatorMetric(t, `realmkeeper_clients{realm="acme",state="Ready"}`); got != strconv.Itoa(clients) {
		t.Errorf("the operator counts %q Ready clients", got)
	}
	rotated, err := strconv.Atoi(inst.OperatorMetric(t, `realmkeeper_rotations_total{kind="client_secret",outcome="success"}`))
	if err != nil || rotated < clients*rotations {
		t.Errorf("the operator counts %d rotations, %v", rotated, err)
	}
}

// tokenRequests sends token requests until it is stopped.
type tokenRequests struct {
	count atomic.Int64
	stop  func()
}

// betweenReads is the time between two reads of a credentials Secret. It leaves enough CPU time for
// the tested programs.
const betweenReads = 100 * time.Millisecond

// shortestOverlap is the minimum time that a replaced secret remains valid in these tests.
const shortestOverlap = time.Second

// startRequests makes each client request tokens from each token server. As in a workload with a
// mounted Secret, a client sees changes to the Secret with a delay.
func startRequests(t *testing.T, inst *install.Installation, clients []*v1beta1.ApiClient) *tokenRequests {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	r := &tokenRequests{stop: func() { cancel(); running.Wait() }}
	t.Cleanup(r.stop)
	for _, c := range clients {
		key := client.ObjectKeyFromObject(c)
		for _, s := range inst.Servers() {
			httpClient := s.Client(t)
			running.Go(func() {
				for ctx.Err() == nil {
					credentials, read := &corev1.Secret{}, time.Now()
					if err := inst.Env.Client.Get(ctx, key, credentials); err != nil {
						continue // the test is ending
					}
					for range 2 {
						r.request(t, s, httpClient, credentials, read)
					}
					select {
					case <-ctx.Done():
					case <-time.After(betweenReads):
					}
				}
			})
		}
	}
	return r
}

// request requests a token with credentials that were read at the given time. On a busy machine,
// the overlap may have ended since then. In that case, a rejection is not an error.
func (r *tokenRequests) request(t *testing.T, s *install.TokenServer, httpClient *http.Client, credentials *corev1.Secret, read time.Time) {
	a, err := install.RequestToken(t, s, httpClient, credentials)
	if err != nil || a.Status != http.StatusOK && time.Since(read) < shortestOverlap {
		t.Errorf("%s rejected %s: %+v, %v", s.Name, credentials.Name, a, err)
	}
	r.count.Add(1)
}

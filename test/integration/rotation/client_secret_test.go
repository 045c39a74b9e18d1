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

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A hundred rotations by schedule, while each client asks both token servers for tokens with
// what its Secret holds: no call fails, and no client is anything but Ready.
func TestRotationFailsNoCall(t *testing.T) {
	const clients, rotations = 20, 5
	cluster := env.Start(t)
	// An hour is a second: a secret is replaced when it is 4 s old, and ends a second after that.
	inst := install.New(t, cluster, install.Settings{SpeedUp: 3600})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	var all []*v1alpha1.ApiClient
	for i := range clients {
		c := install.ApiClient(team, fmt.Sprintf("billing-%d", i), "acme", func(c *v1alpha1.ApiClient) {
			c.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{Rotation: v1alpha1.SecretRotation{
				Interval: &metav1.Duration{Duration: 4 * time.Hour}, Overlap: &metav1.Duration{Duration: time.Hour},
			}}}
		})
		inst.Create(t, c)
		all = append(all, c)
	}
	for _, c := range all {
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	watched := watchClients(t, inst, team)
	load := startLoad(t, inst, all)
	install.Eventually(t, "each client to have had enough secrets", func() error {
		for _, c := range all {
			if secrets := watched.secrets(c.Name); secrets < rotations+2 { // the first, and one that may be under way
				return fmt.Errorf("%s has had %d", c.Name, secrets)
			}
		}
		return nil
	})
	load.stop()
	t.Logf("%d calls in %d rotations and more", load.calls.Load(), clients*rotations)
	if turns := watched.stop(); len(turns) > 0 {
		t.Errorf("Ready changed while secrets rotated: %v", turns)
	}
	if got := inst.OperatorMetric(t, `realmkeeper_clients{realm="acme",state="Ready"}`); got != strconv.Itoa(clients) {
		t.Errorf("the operator counts %q clients that are Ready", got)
	}
	rotated, err := strconv.Atoi(inst.OperatorMetric(t, `realmkeeper_rotations_total{kind="client_secret",outcome="success"}`))
	if err != nil || rotated < clients*rotations {
		t.Errorf("the operator counts %d rotations, %v", rotated, err)
	}
}

// The operator may be killed after any of the writes of a rotation: started again, it
// completes the rotation, or another in its place, and no call fails.
func TestKilledWithinARotation(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	c := install.ApiClient(cluster.Namespace(t), "billing", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	inst.Create(t, install.Realm("acme"), c)
	scenario.AwaitUsable(t, inst, c)
	load := startLoad(t, inst, []*v1alpha1.ApiClient{c})

	rotation := func(t *testing.T, number int) (writes int) {
		t.Helper()
		inst.StopOperator(t)
		proxy := inst.StartFaultProxy(t, install.Faults{
			Of: func(write int) install.Fault {
				if write == number {
					return install.AnswerLost
				}
				return install.NoFault
			},
			Then: func() { inst.KillAndRestartOperator(t) },
		})
		inst.StartOperator(t, inst.KubeconfigFor(t, proxy.URL))
		scenario.RotateSecret(t, inst, c)
		scenario.AwaitSecretRotated(t, inst, c)
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		inst.AwaitTokens(t, inst.ConsumerSecret(t, c), true)
		return proxy.Writes()
	}
	writes := rotation(t, 0)
	if writes < 4 {
		t.Errorf("an undisturbed rotation makes %d writes", writes)
	}
	for number := 1; number <= writes; number++ {
		t.Run(fmt.Sprintf("killed after write %d of %d", number, writes), func(t *testing.T) { rotation(t, number) })
	}
	load.stop()
	t.Logf("%d calls in %d rotations", load.calls.Load(), writes+1)
}

// tokenLoad asks for tokens until it is stopped.
type tokenLoad struct {
	calls atomic.Int64
	stop  func()
}

// shortestOverlap is for how long a secret stays valid, at least, that is replaced under load.
const shortestOverlap = time.Second

// startLoad has each client ask each token server for tokens. As a workload with a
// mounted Secret does, it takes up a changed one a moment later.
func startLoad(t *testing.T, inst *install.Installation, clients []*v1alpha1.ApiClient) *tokenLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	l := &tokenLoad{stop: func() { cancel(); running.Wait() }}
	t.Cleanup(l.stop)
	for _, c := range clients {
		key := client.ObjectKeyFromObject(c)
		for _, s := range inst.Servers() {
			httpClient := s.Client(t)
			running.Go(func() {
				for ctx.Err() == nil {
					consumer, read := &corev1.Secret{}, time.Now()
					if err := inst.Env.Client.Get(ctx, key, consumer); err != nil {
						continue // the test is ending
					}
					for range 5 {
						l.ask(t, s, httpClient, consumer, read)
					}
				}
			})
		}
	}
	return l
}

// ask asks with what was read then. On a machine so busy that the overlap has passed since,
// a refusal proves nothing.
func (l *tokenLoad) ask(t *testing.T, s *install.TokenServer, httpClient *http.Client, consumer *corev1.Secret, read time.Time) {
	a, err := install.RequestToken(t, s, httpClient, consumer)
	if err != nil || a.Status != http.StatusOK && time.Since(read) < shortestOverlap {
		t.Errorf("%s refuses %s: %+v, %v", s.Name, consumer.Name, a, err)
	}
	l.calls.Add(1)
}

// watching is what has been seen of the clients of a namespace.
type watching struct {
	stop func() []string // returns when Ready of a client was not True

	mu   sync.Mutex
	seen map[string]map[string]bool // client → ids of its secrets
}

// secrets returns how many secrets a client has had.
func (w *watching) secrets(client string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen[client])
}

func watchClients(t *testing.T, inst *install.Installation, namespace string) *watching {
	t.Helper()
	events, err := inst.Env.Client.Watch(t.Context(), &v1alpha1.ApiClientList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	var (
		w       = &watching{seen: map[string]map[string]bool{}}
		unready []string
		running sync.WaitGroup
	)
	running.Go(func() {
		for event := range events.ResultChan() {
			c, ok := event.Object.(*v1alpha1.ApiClient)
			if !ok {
				return // stopping ends the watch with an error
			}
			if ready := meta.FindStatusCondition(c.Status.Conditions, string(v1alpha1.ConditionReady)); ready == nil || ready.Status != metav1.ConditionTrue {
				unready = append(unready, fmt.Sprintf("%s is %v", c.Name, ready))
			}
			w.note(c)
		}
	})
	stop := sync.OnceFunc(func() { events.Stop(); running.Wait() })
	t.Cleanup(stop)
	w.stop = func() []string { stop(); return unready }
	return w
}

func (w *watching) note(c *v1alpha1.ApiClient) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[c.Name] == nil {
		w.seen[c.Name] = map[string]bool{}
	}
	for _, s := range c.Status.Secrets {
		w.seen[c.Name][s.ID] = true
	}
}

package faults_test

import (
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// How long and which storm; docs/operations.md says how to go further.
var (
	stormLasts = flag.Duration("storm", 5*time.Second, "how long the storm of faults lasts")
	stormSeed  = flag.Uint64("storm-seed", 1, "which faults and changes the storm brings")
)

// betweenChanges is how long the world stays as it is in a storm, at most.
const betweenChanges = 400 * time.Millisecond

// While one in twenty requests of operator and token servers fails and every watch is cut
// sooner or later, everything changes at random. What comes of it is what an installation without
// faults makes of the last specs; and who wasn't meant gets tokens all the time.
func TestStormOfFaults(t *testing.T) {
	cluster := env.Start(t)
	t.Logf("The seed is %d", *stormSeed)
	var (
		last      *world
		got, want scenario.State
	)
	t.Run("storm", func(t *testing.T) { last, got = weather(t, cluster) })
	if t.Failed() {
		return
	}
	t.Run("undisturbed", func(t *testing.T) {
		inst, proxy := calmly(t, cluster)
		again := last.again(inst, cluster.Namespace(t))
		for _, obj := range again.all() {
			inst.Create(t, obj)
		}
		settles(t, again, proxy)
		want = withoutHistory(scenario.StateOf(t, inst, again.team))
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the storm ends in another state than an undisturbed run (-want +got):\n%s", diff)
	}
}

// weather has a storm and returns what it leaves behind.
func weather(t *testing.T, cluster *env.Env) (*world, scenario.State) {
	inst, proxy := calmly(t, cluster)
	w := newWorld(inst, cluster.Namespace(t), *stormSeed)
	for _, obj := range w.all() {
		inst.Create(t, obj)
	}
	w.collect(t)
	bystander := w.clients[steady]
	inst.AwaitReady(t, bystander, metav1.ConditionTrue, v1alpha1.ReasonReady)
	prober := scenario.StartProber(t, inst)
	prober.Watch(steady, scenario.MountedCredentials(inst, bystander))

	proxy.StartRandomFaults(*stormSeed)
	changes := 0
	pace := time.NewTicker(betweenChanges)
	defer pace.Stop()
	for began := time.Now(); time.Since(began) < *stormLasts; <-pace.C {
		for range w.random.IntN(4) {
			w.change(t)
			changes++
		}
	}
	w.repair(t)
	failed, cut := proxy.StopRandomFaults()
	t.Logf("%d changes; %d requests failed and %d watches were cut", changes, failed, cut)
	if failed == 0 || cut == 0 {
		t.Error("there was no storm")
	}
	settles(t, w, proxy)
	prober.Stop(t)
	w.tryAll(t)
	return w, withoutHistory(scenario.StateOf(t, inst, w.team))
}

// calmly starts an installation whose programs all go through one proxy.
func calmly(t *testing.T, cluster *env.Env) (*install.Installation, *install.FaultProxy) {
	t.Helper()
	// Signing keys are published a second ahead, and stay for eleven after their end.
	inst := install.New(t, cluster, install.Settings{DefaultTokenLifetime: "10s", SpeedUp: 600})
	proxy := inst.StartFaultProxy(t, install.Faults{})
	kubeconfig := inst.KubeconfigFor(t, proxy.URL)
	inst.StartOperator(t, kubeconfig)
	for range 2 {
		inst.LaunchTokenServer(t, kubeconfig).AwaitReady(t)
	}
	return inst, proxy
}

// settles waits until the last rotation is over and the last secret that was replaced has ended.
func settles(t *testing.T, w *world, proxy *install.FaultProxy) {
	t.Helper()
	w.inst.AwaitSettled(t)
	for name := range w.realms {
		realm := install.Realm(name)
		install.Eventually(t, "realm "+name+" to have one key", func() error {
			if err := w.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
				return err
			}
			if states := scenario.SigningKeyStates(realm); len(states) != 1 || states[0] != v1alpha1.SigningKeyActive {
				return fmt.Errorf("its keys are %v", states)
			}
			return nil
		})
	}
	for name, c := range w.clients {
		now := c.DeepCopy()
		install.Eventually(t, "client "+name+" to have one secret", func() error {
			if err := w.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), now); err != nil {
				return err
			}
			if s := now.Status.Secrets; len(s) != 1 || s[0].ExpiresAt != nil {
				return fmt.Errorf("its secrets are %v", s)
			}
			return nil
		})
	}
	w.awaitCollected(t)
	w.inst.AwaitQuiet(t, proxy)
	w.inst.AwaitSettled(t)
}

// awaitCollected waits until the garbage collector has removed the Secrets of deleted clients. A
// client with the same name may exist again, so the name of a Secret doesn't tell.
func (w *world) awaitCollected(t *testing.T) {
	t.Helper()
	install.Eventually(t, "the Secrets of deleted clients to be collected", func() error {
		clients, secrets := &v1alpha1.ApiClientList{}, &corev1.SecretList{}
		if err := w.inst.Env.Client.List(t.Context(), clients, client.InNamespace(w.team)); err != nil {
			return err
		}
		if err := w.inst.Env.Client.List(t.Context(), secrets, client.InNamespace(w.team)); err != nil {
			return err
		}
		live := map[types.UID]bool{}
		for i := range clients.Items {
			live[clients.Items[i].UID] = true
		}
		for i := range secrets.Items {
			for _, owner := range secrets.Items[i].OwnerReferences {
				if !live[owner.UID] {
					return fmt.Errorf("Secret %s still exists; its owner %s does not", secrets.Items[i].Name, owner.UID)
				}
			}
		}
		return nil
	})
}

// tryAll tries every secret that any client ever had: what is valid works at every token
// server, and nothing else does.
func (w *world) tryAll(t *testing.T) {
	t.Helper()
	valid := w.valid(t)
	refused := 0
	var tried sync.WaitGroup
	for _, s := range w.inst.Servers() {
		httpClient := s.Client(t)
		try := func(had had) {
			a, err := install.RequestToken(t, s, httpClient, had.credentials())
			if err != nil || (a.Status == http.StatusOK) != valid[had] {
				t.Errorf("%s answers a client %s with a secret that is valid=%t: %+v, %v", s.Name, had.clientID, valid[had], a, err)
			}
		}
		for had := range valid {
			try(had)
		}
		for had := range w.everHad() {
			if !valid[had] {
				refused++
				tried.Go(func() { try(had) }) // together: who fails often is held back
			}
		}
	}
	tried.Wait()
	t.Logf("%d secrets are valid, %d times one was tried that isn't", len(valid), refused)
}

// withoutHistory takes out of a state what tells how it came about.
func withoutHistory(s scenario.State) scenario.State {
	for name, content := range s {
		for _, pattern := range []string{
			`,?\s*\\?"(publishedAt|retiredAt|lastRotationTime)\\?":\s*\\?"TIME\\?"`, `,?\s*\\?"successor\\?":true`, `,?\s*"observedGeneration": \d+`,
		} {
			content = regexp.MustCompile(pattern).ReplaceAllString(content, "")
		}
		s[name] = content
	}
	return s
}

// had is a secret that a client had at some time.
type had struct{ tokenURL, clientID, secret string }

func (h had) credentials() *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{
		v1alpha1.SecretKeyTokenURL: []byte(h.tokenURL), v1alpha1.SecretKeyClientID: []byte(h.clientID),
		v1alpha1.SecretKeyClientSecret: []byte(h.secret),
	}}
}

func hadIn(credentials *corev1.Secret) had {
	return had{string(credentials.Data[v1alpha1.SecretKeyTokenURL]), string(credentials.Data[v1alpha1.SecretKeyClientID]), scenario.ClientSecret(credentials)}
}

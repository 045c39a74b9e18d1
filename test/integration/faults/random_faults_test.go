package faults_test

import (
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Duration and seed of the random faults. docs/operations.md describes longer runs.
var (
	faultDuration = flag.Duration("faults", 5*time.Second, "Duration of the random faults")
	faultSeed     = flag.Uint64("faults-seed", 1, "Seed for the random faults and changes")
)

// betweenChanges is the time between two rounds of changes.
const betweenChanges = 400 * time.Millisecond

// TestConvergesUnderRandomFaults makes random changes while one in twenty requests of the operator
// and the token servers fails and every watch ends early. The final state must match that of an
// installation without faults that starts with the final specs. A client that isn't changed must be
// able to get tokens at all times.
func TestConvergesUnderRandomFaults(t *testing.T) {
	cluster := env.Start(t)
	t.Logf("The seed is %d", *faultSeed)
	var (
		last      *model
		got, want scenario.State
	)
	t.Run("with faults", func(t *testing.T) { last, got = runWithRandomFaults(t, cluster) })
	if t.Failed() {
		return
	}
	t.Run("without faults", func(t *testing.T) {
		inst, proxy := startBehindProxy(t, cluster)
		again := last.again(inst, cluster.Namespace(t))
		for _, obj := range again.all() {
			inst.Create(t, obj)
		}
		settles(t, again, proxy)
		want = withoutHistory(scenario.StateOf(t, inst, again.team))
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the final state differs from that of a run without faults (-want +got):\n%s", diff)
	}
}

// runWithRandomFaults makes random changes while random faults are injected, and returns the model
// and the final state.
func runWithRandomFaults(t *testing.T, cluster *env.Env) (*model, scenario.State) {
	inst, proxy := startBehindProxy(t, cluster)
	m := newModel(t, inst, cluster.Namespace(t), *faultSeed)
	for _, obj := range m.all() {
		inst.Create(t, obj)
	}
	m.collect(t)
	bystander := m.clients[stable]
	inst.AwaitReady(t, bystander, metav1.ConditionTrue, v1alpha1.ReasonReady)
	prober := scenario.StartProber(t, inst)
	prober.Watch(stable, scenario.MountedCredentials(inst, bystander))

	proxy.StartRandomFaults(*faultSeed)
	changes := 0
	pace := time.NewTicker(betweenChanges)
	defer pace.Stop()
	for began := time.Now(); time.Since(began) < *faultDuration; <-pace.C {
		for range m.random.IntN(4) {
			m.change(t)
			changes++
		}
	}
	m.repair(t)
	failed, cut := proxy.StopRandomFaults()
	t.Logf("%d changes; %d requests failed and %d watches ended early", changes, failed, cut)
	if failed == 0 || cut == 0 {
		t.Error("no faults were injected")
	}
	settles(t, m, proxy)
	prober.Stop(t)
	m.tryAll(t)
	m.tryWorkloads(t)
	return m, withoutHistory(scenario.StateOf(t, inst, m.team))
}

// startBehindProxy starts an installation whose programs all connect through the same proxy.
func startBehindProxy(t *testing.T, cluster *env.Env) (*install.Installation, *install.FaultProxy) {
	t.Helper()
	// Signing keys are published one second before they are used, and remain published for eleven
	// seconds after they are retired.
	inst := install.New(t, cluster, install.Settings{DefaultTokenLifetime: "10s", SpeedUp: 600})
	proxy := inst.StartFaultProxy(t, install.Faults{})
	kubeconfig := inst.KubeconfigFor(t, proxy.URL)
	inst.StartOperator(t, kubeconfig)
	for range 2 {
		inst.LaunchTokenServer(t, kubeconfig).AwaitReady(t)
	}
	return inst, proxy
}

// settles waits until all rotations are complete and all replaced secrets have expired.
func settles(t *testing.T, m *model, proxy *install.FaultProxy) {
	t.Helper()
	m.inst.AwaitSettled(t)
	for name := range m.realms {
		realm := install.Realm(name)
		install.Eventually(t, "realm "+name+" to have one key", func() error {
			if err := m.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
				return err
			}
			if states := scenario.SigningKeyStates(realm); len(states) != 1 || states[0] != v1alpha1.SigningKeyActive {
				return fmt.Errorf("its keys are in the states %v", states)
			}
			return nil
		})
	}
	for name, c := range m.clients {
		now := c.DeepCopy()
		install.Eventually(t, "client "+name+" to have one secret", func() error {
			if err := m.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), now); err != nil {
				return err
			}
			if s := now.Status.Secrets; len(s) != 1 || s[0].ExpiresAt != nil {
				return fmt.Errorf("its secrets are %v", s)
			}
			return nil
		})
	}
	m.awaitCollected(t)
	m.inst.AwaitQuiet(t, proxy)
	m.inst.AwaitSettled(t)
}

// awaitCollected waits until the garbage collector has deleted the Secrets of deleted clients. A
// client with the same name may exist again, so it compares the UIDs of the owners.
func (m *model) awaitCollected(t *testing.T) {
	t.Helper()
	install.Eventually(t, "the Secrets of deleted clients to be collected", func() error {
		clients, secrets := &v1alpha1.ApiClientList{}, &corev1.SecretList{}
		if err := m.inst.Env.Client.List(t.Context(), clients, client.InNamespace(m.team)); err != nil {
			return err
		}
		if err := m.inst.Env.Client.List(t.Context(), secrets, client.InNamespace(m.team)); err != nil {
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

// tryAll tries every secret that any client has ever had. Every token server must accept the valid
// secrets and reject all others.
func (m *model) tryAll(t *testing.T) {
	t.Helper()
	valid := m.valid(t)
	rejected := 0
	var tried sync.WaitGroup
	for _, s := range m.inst.Servers() {
		httpClient := s.Client(t)
		try := func(had credential) {
			a, err := install.RequestToken(t, s, httpClient, had.asSecret())
			if err != nil || (a.Status == http.StatusOK) != valid[had] {
				t.Errorf("%s responded incorrectly to client %s (secret valid: %t): %+v, %v", s.Name, had.clientID, valid[had], a, err)
			}
		}
		for had := range valid {
			try(had)
		}
		for had := range m.everHad() {
			if !valid[had] {
				rejected++
				tried.Go(func() { try(had) }) // in parallel, because token servers delay their responses after repeated failures
			}
		}
	}
	tried.Wait()
	t.Logf("Tried %d valid secrets, and made %d attempts with invalid ones", len(valid), rejected)
}

// tryWorkloads tries every subject that a client can list. Without a client ID, every token server must
// issue tokens exactly for those that a Ready client lists.
func (m *model) tryWorkloads(t *testing.T) {
	t.Helper()
	for i := range changingClients {
		name := fmt.Sprint(prefix, i)
		c := m.clients[name]
		if c == nil {
			continue
		}
		ready := meta.IsStatusConditionTrue(c.Status.Conditions, string(v1alpha1.ConditionReady))
		for _, subject := range subjectsOf(name) {
			want := ready && slices.ContainsFunc(c.Spec.FederatedIdentities, func(f v1alpha1.FederatedIdentity) bool { return f.Subject == subject })
			token := m.ci.Token(t, strings.TrimSuffix(c.Status.TokenEndpoint, oauth.TokenPath), subject, nil)
			for _, s := range m.inst.Servers() {
				a, err := install.RequestTokenByGrant(t, s, s.Client(t), c.Status.TokenEndpoint, "", token)
				if err != nil || (a.Status == http.StatusOK) != want {
					t.Errorf("%s responded incorrectly to subject %s (listed by a Ready client: %t): %+v, %v", s.Name, subject, want, a, err)
				}
			}
		}
	}
}

// withoutHistory removes the parts of a state that depend on the sequence of changes.
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

// credential is a secret that a client has or used to have.
type credential struct{ tokenURL, clientID, secret string }

func (c credential) asSecret() *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{
		v1alpha1.SecretKeyTokenURL: []byte(c.tokenURL), v1alpha1.SecretKeyClientID: []byte(c.clientID),
		v1alpha1.SecretKeyClientSecret: []byte(c.secret),
	}}
}

func credentialIn(credentials *corev1.Secret) credential {
	return credential{string(credentials.Data[v1alpha1.SecretKeyTokenURL]), string(credentials.Data[v1alpha1.SecretKeyClientID]), scenario.ClientSecret(credentials)}
}

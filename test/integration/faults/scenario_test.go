package faults_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// changeScenario makes the operator perform every kind of write. It creates objects, and changes
// them once they are Ready. Meanwhile, a prober continuously requests tokens with the workloads'
// credentials.
type changeScenario struct {
	inst  *install.Installation
	team  string
	realm *v1beta1.Realm
	// There is one client for each kind of change: the generated secret is rotated, the client is
	// deleted, the credentials Secret is deleted, the provided secret changes, the hash changes, and
	// the client switches to a different kind of secret.
	rotated, deleted, lost, provided, hashed, moved *v1beta1.ApiClient
	// holder loses its grant and is released, and heir then acquires its client ID and subject.
	holder, heir         *v1beta1.ApiClient
	ci                   *issuer.Static // a trusted issuer of the realm
	external, other      *corev1.Secret
	before, after, third string // client secrets chosen by users
	kubeconfig           string // of the operator
}

// Subjects of the trusted issuer. Workloads of the client "moved" change.
const inheritedSubject, movedSubject, newSubject = "repo:acme/inherited", "repo:acme/moved", "repo:acme/new"

// byWorkload returns the identities of a client whose workloads have one of the subjects.
func byWorkload(subjects ...string) []v1beta1.Identity { return install.Subjects("ci", subjects...) }

// granted is an audience that the realm's grant covers throughout, and withdrawn is one that it
// covers only at first.
const granted, withdrawn = "https://orders.example.com", "https://stock.example.com"

func newChangeScenario(t *testing.T, cluster *env.Env) *changeScenario {
	t.Helper()
	s := &changeScenario{inst: install.New(t, cluster, install.Settings{SpeedUp: 3600}), team: cluster.Namespace(t)}
	s.before, s.after, s.third = generateSecret(t), generateSecret(t), generateSecret(t)
	s.ci = issuer.NewStatic(t, "ci", "https://ci.example.com")
	s.realm = install.Realm("acme", func(r *v1beta1.Realm) {
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{s.ci.Trusted(t)}
		r.Spec.Scopes, r.Spec.Audiences = []string{"read"}, []string{granted, withdrawn}
	})
	s.external, s.other = labeledSecret(s.team, "external", s.before), labeledSecret(s.team, "other", s.third)
	s.rotated = install.ApiClient(s.team, "rotated", "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(time.Second) })
	s.deleted = install.ApiClient(s.team, "deleted", "acme")
	s.lost = install.ApiClient(s.team, "lost", "acme")
	s.provided = install.ApiClient(s.team, "provided", "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = providedBy(s.external, 3600*time.Hour) })
	s.hashed = install.ApiClient(s.team, "hashed", "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = hashOf(t, s.before) })
	s.moved = install.ApiClient(s.team, "moved", "acme", func(c *v1beta1.ApiClient) {
		c.Spec.Secret, c.Spec.Identities = install.GeneratedSecret(), byWorkload(movedSubject)
	})
	introspecting := func(audience string) func(*v1beta1.ApiClient) {
		return func(c *v1beta1.ApiClient) {
			c.Spec.ClientID, c.Spec.Introspection.Audiences = "inherited", []string{audience}
			c.Spec.Secret, c.Spec.Identities = install.GeneratedSecret(), byWorkload(inheritedSubject)
		}
	}
	s.holder = install.ApiClient(s.team, "holder", "acme", introspecting(withdrawn))
	s.heir = install.ApiClient(s.team, "heir", "acme", introspecting(granted))
	return s
}

// run runs the scenario while the given faults are injected between the operator and the API
// server.
func (s *changeScenario) run(t *testing.T, faults install.Faults) *install.FaultProxy {
	t.Helper()
	s.inst.Create(t, s.realm, s.external, s.other)
	all := []*v1beta1.ApiClient{s.rotated, s.deleted, s.lost, s.provided, s.hashed, s.moved, s.holder}
	for _, c := range all {
		s.inst.Create(t, c)
	}
	proxy := s.inst.StartFaultProxy(t, faults)
	s.kubeconfig = s.inst.KubeconfigFor(t, proxy.URL)
	s.inst.StartOperator(t, s.kubeconfig)
	s.inst.StartTokenServer(t)
	s.inst.StartTokenServer(t)

	prober := scenario.StartProber(t, s.inst)
	for _, c := range all {
		s.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
		if c != s.deleted && c != s.holder {
			prober.Watch(c.Name, s.credentials(c))
		}
	}
	s.inst.Create(t, s.heir)
	s.inst.AwaitReady(t, s.heir, metav1.ConditionFalse, v1beta1.ReasonClientIDConflict)
	former := map[*v1beta1.ApiClient]*corev1.Secret{}
	for _, c := range []*v1beta1.ApiClient{s.rotated, s.deleted, s.lost, s.moved, s.holder} {
		former[c] = s.inst.CredentialsSecret(t, c)
	}
	s.change(t, prober, former)
	s.inherit(t)
	s.awaitChanged(t, former)
	for _, old := range former {
		s.inst.AwaitTokens(t, old, false)
	}
	prober.Stop(t)
	return proxy
}

// credentials returns the credentials that a client's workloads may currently have, oldest first.
func (s *changeScenario) credentials(c *v1beta1.ApiClient) scenario.CredentialSource {
	c = c.DeepCopy()
	mounted := scenario.MountedCredentials(s.inst, c)
	switch c.Name {
	case s.provided.Name, s.hashed.Name:
		return func(context.Context) ([]*corev1.Secret, error) {
			return []*corev1.Secret{scenario.Credentials(c, s.before), scenario.Credentials(c, s.after)}, nil
		}
	case s.moved.Name:
		return func(ctx context.Context) ([]*corev1.Secret, error) {
			credentials, err := mounted(ctx)
			return append(credentials, scenario.Credentials(c, s.third)), err
		}
	}
	return mounted
}

// change makes all changes at the same time.
func (s *changeScenario) change(t *testing.T, prober *scenario.Prober, former map[*v1beta1.ApiClient]*corev1.Secret) {
	t.Helper()
	install.Change(t, s.inst, s.realm, func(r *v1beta1.Realm) {
		r.Spec.Scopes = []string{"read", "write"}
		r.Spec.Grants[0].Audiences = []string{granted}
		r.Spec.Signing.RotationRequestTime = &metav1.Time{Time: r.Status.SigningKeys[0].CreationTime.Add(time.Second)}
	})
	scenario.RotateSecret(t, s.inst, s.rotated)
	install.Change(t, s.inst, s.rotated, func(c *v1beta1.ApiClient) {
		c.Spec.Scopes = []string{"write"}
		c.Spec.Secret.Generated.Keys = map[string]v1beta1.SecretDataKey{v1beta1.SecretKeyScope: "SCOPE"}
	})
	s.inst.Delete(t, s.deleted)
	prober.Forget("lost") // deleting the Secret revokes the client secret in it
	s.inst.Delete(t, former[s.lost])
	install.Change(t, s.inst, s.external, func(v *corev1.Secret) { v.Data["PASSWORD"] = []byte(s.after) })
	install.Change(t, s.inst, s.hashed, func(c *v1beta1.ApiClient) { c.Spec.Secret = hashOf(t, s.after) })
	install.Change(t, s.inst, s.moved, func(c *v1beta1.ApiClient) {
		c.Spec.Secret, c.Spec.Identities = providedBy(s.other, time.Second), byWorkload(newSubject)
	})
}

// inherit releases the client that has lost its grant, so that the other one acquires its ID.
func (s *changeScenario) inherit(t *testing.T) {
	t.Helper()
	s.inst.AwaitReady(t, s.holder, metav1.ConditionFalse, v1beta1.ReasonNotGranted)
	s.inst.AwaitReady(t, s.heir, metav1.ConditionFalse, v1beta1.ReasonClientIDConflict)
	install.Change(t, s.inst, s.realm, func(r *v1beta1.Realm) { install.Release(r) })
	s.inst.AwaitReady(t, s.heir, metav1.ConditionTrue, v1beta1.ReasonReady)
	s.inst.AwaitTokens(t, s.inst.CredentialsSecret(t, s.heir), true)
	s.inst.AwaitReady(t, s.holder, metav1.ConditionFalse, v1beta1.ReasonNotGranted)
}

// awaitChanged waits until all changes are complete.
func (s *changeScenario) awaitChanged(t *testing.T, former map[*v1beta1.ApiClient]*corev1.Secret) {
	t.Helper()
	scenario.AwaitSecretRotated(t, s.inst, s.rotated)
	scenario.AwaitSigningKeys(t, s.inst, s.realm, v1beta1.SigningKeyRetiring, v1beta1.SigningKeyActive)
	install.Eventually(t, "obsolete objects to be deleted", func() error {
		// One of the realm, one of each of the six clients, and two of subjects.
		if records := scenario.Records(t, s.inst); len(records) != 9 {
			return fmt.Errorf("there are %d records, want 9", len(records))
		}
		for _, c := range []*v1beta1.ApiClient{s.deleted, s.moved} {
			if err := install.NotFound(s.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(former[c]), &corev1.Secret{})); err != nil {
				return fmt.Errorf("Secret %s: %w", c.Name, err)
			}
		}
		return nil
	})
	for c, secret := range map[*v1beta1.ApiClient]string{s.provided: s.after, s.hashed: s.after, s.moved: s.third} {
		s.inst.AwaitTokens(t, scenario.Credentials(c, secret), true)
	}
	s.inst.AwaitTokens(t, scenario.Credentials(s.provided, s.before), true) // during the overlap
	s.inst.AwaitTokens(t, scenario.Credentials(s.hashed, s.before), false)
	for _, c := range []*v1beta1.ApiClient{s.rotated, s.lost} {
		install.Eventually(t, "a new secret for "+c.Name, func() error {
			if now := s.inst.CredentialsSecret(t, c); scenario.ClientSecret(now) == scenario.ClientSecret(former[c]) {
				return fmt.Errorf("the secret has not changed")
			}
			return nil
		})
		s.inst.AwaitTokens(t, s.inst.CredentialsSecret(t, c), true)
	}
	for _, c := range []*v1beta1.ApiClient{s.rotated, s.lost, s.provided, s.hashed, s.moved, s.heir} {
		s.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	}
	s.inst.AwaitReady(t, s.realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	for subject, holder := range map[string]*v1beta1.ApiClient{inheritedSubject: s.heir, newSubject: s.moved, movedSubject: nil} {
		s.awaitHolder(t, subject, holder)
	}
	scenario.AwaitPublishedKeys(t, s.inst, s.realm, s.inst.CredentialsSecret(t, s.lost))
}

// awaitHolder waits until a workload's token without a client ID selects a client on every token server;
// nil means none.
func (s *changeScenario) awaitHolder(t *testing.T, subject string, want *v1beta1.ApiClient) {
	t.Helper()
	endpoint := s.heir.Status.TokenEndpoint
	token := s.ci.Token(t, strings.TrimSuffix(endpoint, oauth.TokenPath), subject, nil)
	for _, server := range s.inst.Servers() {
		install.Eventually(t, server.Name+" to know the holder of "+subject, func() error {
			response, err := install.RequestTokenByGrant(t, server, server.Client(t), endpoint, "", token)
			if err != nil || (response.AccessToken != "") != (want != nil) {
				return fmt.Errorf("the response is %+v, %w", response, err)
			}
			return nil
		})
	}
}

// providedBy returns a secret source that refers to the given Secret.
func providedBy(secret *corev1.Secret, overlap time.Duration) *v1beta1.ClientSecretSource {
	return &v1beta1.ClientSecretSource{Provided: &v1beta1.ProvidedSecret{
		SecretRef: v1beta1.SecretKeyReference{Name: secret.Name, Key: "PASSWORD"}, Overlap: &v1beta1.Duration{Duration: overlap},
	}}
}

// labeledSecret returns a Secret with the label that allows the operator to read it.
func labeledSecret(namespace, name, value string) *corev1.Secret {
	s := scenario.ProvidedSecret(namespace, value)
	s.Name, s.Labels = name, map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}
	return s
}

// generateSecret returns a strong secret. Strong secrets don't need a slow hash.
func generateSecret(t *testing.T) string {
	t.Helper()
	secret, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func hashOf(t *testing.T, secret string) *v1beta1.ClientSecretSource {
	t.Helper()
	verifier, err := clientsecret.Hash(secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &v1beta1.ClientSecretSource{Hashed: []v1beta1.HashedSecret{{ID: verifier.ID(), Hash: verifier.String()}}}
}

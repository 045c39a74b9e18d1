package federation_test

import (
	"fmt"
	"net/http"
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

// Pods of a second cluster get tokens with their own service account tokens. Both clusters have a
// Pod with the same service account, and the same issuer, so only the keys tell their tokens apart.
func TestSecondCluster(t *testing.T) {
	c := newClusters(t)
	c.testAccepted(t)
	c.testRejected(t)
	c.testWithdrawnKey(t)
}

// clusters are a cluster with Realmkeeper and a foreign one, each with a Pod that is a client of the
// realm. The Pods have the same subject.
type clusters struct {
	inst                   *install.Installation
	foreign                *foreignCluster
	realm                  *v1beta1.Realm
	foreignPod, localPod   *corev1.Pod
	otherPod               *corev1.Pod // of the foreign cluster, which no client lists
	foreignClient, inHouse *v1beta1.ApiClient
}

func newClusters(t *testing.T) *clusters {
	t.Helper()
	cluster := env.Start(t)
	c := &clusters{foreign: startForeignCluster(t, cluster), inst: install.New(t, cluster, install.Settings{SpeedUp: often, LocalIssuers: true})}
	namespace := cluster.Namespace(t)
	c.localPod = install.CreatePod(t, cluster.Client, namespace, "worker")
	c.foreign.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	c.foreignPod = install.CreatePod(t, c.foreign.client, namespace, "worker")
	c.otherPod = install.CreatePod(t, c.foreign.client, namespace, "other")

	c.inst.StartOperator(t, "")
	c.inst.StartTokenServer(t)
	c.inst.StartTokenServer(t)
	c.realm = install.Realm("acme", func(r *v1beta1.Realm) {
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{{Name: "edge", Issuer: localIssuer, Keys: c.foreign.url()}}
	})
	c.foreignClient = install.ApiClient(namespace, "edge-worker", c.realm.Name, func(a *v1beta1.ApiClient) {
		a.Spec.Identities = install.Subjects("edge", subject(c.foreignPod))
	})
	c.inHouse = install.ApiClient(namespace, "worker", c.realm.Name, func(a *v1beta1.ApiClient) {
		a.Spec.Identities = install.ServiceAccounts(c.localPod.Spec.ServiceAccountName)
	})
	c.inst.Create(t, c.realm, c.foreignClient, c.inHouse)
	c.inst.AwaitReady(t, c.foreignClient, metav1.ConditionTrue, v1beta1.ReasonReady)
	c.inst.AwaitReady(t, c.inHouse, metav1.ConditionTrue, v1beta1.ReasonReady)
	awaitKeys(t, c.inst, c.realm, keyID(t, c.token(t)))
	return c
}

// awaitKeys waits until the realm's status lists exactly these keys of its first issuer.
func awaitKeys(t *testing.T, inst *install.Installation, realm *v1beta1.Realm, ids ...string) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("the realm to list the keys %v", ids), func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			return err
		}
		resolved := meta.IsStatusConditionTrue(realm.Status.Conditions, string(v1beta1.ConditionIssuersResolved))
		issuers := realm.Status.TrustedIssuers
		if !resolved || len(issuers) == 0 || !sameElements(issuers[0].KeyIDs, ids) {
			return fmt.Errorf("resolved=%t, issuers %+v", resolved, issuers)
		}
		return nil
	})
}

// token returns a new token of the foreign Pod.
func (c *clusters) token(t *testing.T) string {
	t.Helper()
	return install.PodToken(t, c.foreign.client, c.foreignPod, c.issuer(t))
}

// issuer returns the realm's issuer, which is the audience of its clients' tokens.
func (c *clusters) issuer(t *testing.T) string {
	t.Helper()
	install.Eventually(t, "the realm to have an issuer", func() error {
		if err := c.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c.realm), c.realm); err != nil || c.realm.Status.Issuer != "" {
			return err
		}
		return fmt.Errorf("it is missing in %+v", c.realm.Status)
	})
	return c.realm.Status.Issuer
}

func (c *clusters) testAccepted(t *testing.T) {
	local := install.PodToken(t, c.inst.Env.Client, c.localPod, c.issuer(t))
	for name, tc := range map[string]struct {
		token, clientID, want string
	}{
		"foreign Pod":                    {c.token(t), "", c.foreignClient.Status.ClientID},
		"foreign Pod with its client ID": {c.token(t), c.foreignClient.Status.ClientID, c.foreignClient.Status.ClientID},
		"local Pod":                      {local, "", c.inHouse.Status.ClientID},
		"local Pod with its client ID":   {local, c.inHouse.Status.ClientID, c.inHouse.Status.ClientID},
	} {
		for _, s := range c.inst.Servers() {
			for _, way := range presentations {
				install.Eventually(t, fmt.Sprintf("%s to accept the %s by %s", s.Name, name, way.name), func() error {
					got, err := way.request(t, s, s.Client(t), c.realm.Status.TokenEndpoint, tc.clientID, tc.token)
					if err != nil {
						return err
					}
					if got.Status != http.StatusOK || clientOf(t, got.AccessToken) != tc.want {
						return fmt.Errorf("the response is %+v, want a token for %s", got, tc.want)
					}
					return nil
				})
			}
		}
	}
}

func (c *clusters) testRejected(t *testing.T) {
	token, id := c.token(t), c.foreignClient.Status.ClientID
	local := install.PodToken(t, c.inst.Env.Client, c.localPod, c.issuer(t))
	stranger := install.PodToken(t, c.foreign.client, c.otherPod, c.issuer(t))
	n := 0
	for name, tc := range map[string]struct{ token, clientID string }{
		"subject of another Pod":             {stranger, id},
		"audience of another realm":          {install.PodToken(t, c.foreign.client, c.foreignPod, c.issuer(t)+"-2"), id},
		"expired":                            {resigned(t, token, c.foreign.key, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), id},
		"key of another issuer, same key ID": {resigned(t, token, newKey(t), nil), id},
		"local Pod as the foreign one":       {local, id},
	} {
		// The servers take turns, because each limits the failures of a client.
		n++
		s := c.inst.Servers()[n%2]
		t.Run(name, func(t *testing.T) {
			for _, way := range presentations {
				got, err := way.request(t, s, s.Client(t), c.realm.Status.TokenEndpoint, tc.clientID, tc.token)
				if err != nil || got.Status != way.status || got.Error != way.rejection {
					t.Errorf("%s by %s: response %+v, %v, want %d %s", s.Name, way.name, got, err, way.status, way.rejection)
				}
			}
		})
	}
}

// testWithdrawnKey checks that tokens are rejected once their key is no longer published.
func (c *clusters) testWithdrawnKey(t *testing.T) {
	before := c.token(t)
	c.foreign.replaceKey(t)
	after := c.token(t)
	awaitKeys(t, c.inst, c.realm, keyID(t, after))
	for _, s := range c.inst.Servers() {
		for _, way := range presentations {
			install.Eventually(t, s.Name+" to accept the new key and reject the old one by "+way.name, func() error {
				httpClient, url := s.Client(t), c.realm.Status.TokenEndpoint
				if got, err := way.request(t, s, httpClient, url, "", after); err != nil || got.Status != http.StatusOK {
					return fmt.Errorf("new key: %+v, %w", got, err)
				}
				if got, err := way.request(t, s, httpClient, url, c.foreignClient.Status.ClientID, before); err != nil || got.Error != way.rejection {
					return fmt.Errorf("old key: %+v, %w", got, err)
				}
				return nil
			})
		}
	}
}

// clientOf returns the client ID in an access token.
func clientOf(t *testing.T, token string) string {
	t.Helper()
	var claims struct {
		ClientID string `json:"client_id"`
	}
	if err := install.Claims(token, &claims); err != nil {
		t.Fatal(err)
	}
	return claims.ClientID
}

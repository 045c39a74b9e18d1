package plugin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// shopTeam is the namespace of the clients of which tests take backups.
const shopTeam = "shop-apps"

// manifests are what a team keeps in Git.
const (
	acme = `
apiVersion: auth.realmkeeper.dev/v1beta1
kind: Realm
metadata:
  name: acme
  labels: {team: platform}
  annotations: {argocd.argoproj.io/tracking-id: "realms:auth.realmkeeper.dev/Realm:/acme"}
spec:
  scopes: [orders.read]
  statusList: {enabled: true}
  grants: [{name: all, namespaces: {from: All}, scopes: ["*"], audiences: ["*"]}]
---
apiVersion: auth.realmkeeper.dev/v1beta1
kind: ApiClient
metadata: {name: billing, namespace: shop-apps}
spec:
  realmRef: {name: acme}
  scopes: [orders.read]
  secret: {generated: {}}
`
	shop = `
apiVersion: auth.realmkeeper.dev/v1beta1
kind: Realm
metadata: {name: shop}
spec:
  grants: [{name: all, namespaces: {from: All}, scopes: ["*"], audiences: ["*"], clientIDs: ["*"]}]
---
apiVersion: auth.realmkeeper.dev/v1beta1
kind: ApiClient
metadata: {name: orders, namespace: shop-apps}
spec:
  realmRef: {name: shop}
  clientID: shop-orders
  secret: {generated: {}}
`
)

// source is an installation with clients in use.
type source struct {
	*install.Installation

	user            *plugin.User
	billing, orders used
}

// used is what the workload of a client has.
type used struct {
	realm       string
	credentials *corev1.Secret
	token       string
}

func startSource(t *testing.T) *source {
	t.Helper()
	cluster := env.Start(t)
	s := &source{Installation: install.New(t, cluster, install.Settings{}), user: plugin.NewUser(cluster)}
	s.StartOperator(t, "")
	s.StartTokenServer(t)
	s.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shopTeam}})
	s.user.Apply(t, acme)
	s.user.Apply(t, shop)
	s.billing, s.orders = s.use(t, "acme", "billing"), s.use(t, "shop", "orders")
	return s
}

// use waits until a client is usable and returns its credentials and a token.
func (s *source) use(t *testing.T, realm, name string) used {
	t.Helper()
	c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: shopTeam, Name: name}}
	if err := s.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	scenario.AwaitUsable(t, s.Installation, c)
	credentials := s.CredentialsSecret(t, c)
	return used{realm: realm, credentials: credentials, token: s.AccessToken(t, credentials)}
}

// issuer returns the issuer of the realm acme.
func (s *source) issuer(t *testing.T) string {
	t.Helper()
	realm := &v1beta1.Realm{}
	if err := s.Env.Client.Get(t.Context(), client.ObjectKey{Name: "acme"}, realm); err != nil {
		t.Fatal(err)
	}
	return realm.Status.Issuer
}

// shutDown stops the programs, so that another installation can take over the address.
func (s *source) shutDown(t *testing.T) {
	t.Helper()
	s.StopOperator(t)
	s.StopTokenServers(t)
}

// accepts checks that an installation accepts the credentials and the token of a workload.
func (u used) accepts(t *testing.T, inst *install.Installation) {
	t.Helper()
	inst.AwaitTokens(t, u.credentials, true)
	inst.AwaitValid(t, u.realm, u.token, true)
}

// configure creates the ConfigMap of the chart, with the address of the installation.
func configure(t *testing.T, inst *install.Installation, issuer string) {
	t.Helper()
	base := strings.TrimSuffix(issuer, "/acme")
	port := base[strings.LastIndexByte(base, ':')+1:]
	inst.Create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: inst.Namespace, Name: "realmkeeper-config"},
		Data:       map[string]string{"config.yaml": "instanceDomain: " + install.Domain + "\nexternalPort: " + port + "\n"},
	})
}

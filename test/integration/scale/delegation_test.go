//go:build scale

package scale_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/load"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var delegationTries = flag.Int("delegation.tries", 30, "Number of tries of each change that ends a delegated token")

const (
	agentsAPI = "https://agents.example.com"
	ordersAPI = "https://orders.example.com"
	// maxEnd is the time within which every token server must reject a token after the change of an object.
	maxEnd = time.Second
)

// TestDelegatedTokensScale measures how long token servers under load still accept a token that acts for a client
// after its subject or its actor was suspended, or the rule that allowed it was narrowed: from the response of the API
// server to the first response of introspection that the token is inactive, at the last of the token servers.
func TestDelegatedTokensScale(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	servers := inst.Servers()
	namespace := cluster.Namespace(t)
	wide := v1beta1.ExchangeScopes{"orders.read", "orders.write"}
	realm := install.Realm("delegation", func(r *v1beta1.Realm) {
		r.Spec.Scopes, r.Spec.Audiences = v1beta1.Scopes{"agents.call", "orders.read", "orders.write"}, v1beta1.Audiences{agentsAPI, ordersAPI}
		r.Spec.Exchanges = []v1beta1.Exchange{{
			Name: "agents", Actors: v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Names: []string{namespace}}, ClientIDs: []string{namespace + ".agent"}},
			Subjects: v1beta1.ExchangeSubjects{
				Clients:   &v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Names: []string{namespace}}},
				Audiences: v1beta1.ExchangeAudiences{agentsAPI}, Scopes: v1beta1.ExchangeScopes{"agents.call"},
			},
			Audiences: v1beta1.ExchangeAudiences{ordersAPI}, Scopes: wide,
		}}
	})
	subject := install.ApiClient(namespace, "service", realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.Scopes, c.Spec.Audiences = v1beta1.Scopes{"agents.call", "orders.read"}, v1beta1.Audiences{agentsAPI}
	})
	actor := install.ApiClient(namespace, "agent", realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.DelegatedScopes, c.Spec.Audiences = v1beta1.DelegatedScopes{"orders.read"}, v1beta1.Audiences{ordersAPI}
	})
	api := install.ApiClient(namespace, "orders-api", realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.Introspection.Audiences = v1beta1.Audiences{ordersAPI}
	})
	inst.Create(t, realm, subject, actor, api)
	for _, c := range []*v1beta1.ApiClient{subject, actor, api} {
		scenario.AwaitUsable(t, inst, c)
	}
	d := delegation{
		inst: inst, servers: servers,
		subject: inst.CredentialsSecret(t, subject), actor: inst.CredentialsSecret(t, actor), api: inst.CredentialsSecret(t, api),
	}
	for _, s := range servers {
		d.clients = append(d.clients, s.Client(t))
	}
	running := load.Start(t, load.Options{Servers: servers, Credentials: func() *corev1.Secret { return d.api }, Workers: 8, PerSecond: 200})
	suspend := func(c *v1beta1.ApiClient) (end, restore func()) {
		set := func(suspend bool) func() {
			return func() { install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = suspend }) }
		}
		return set(true), set(false)
	}
	allow := func(scopes v1beta1.ExchangeScopes) func() {
		return func() { install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.Exchanges[0].Scopes = scopes }) }
	}
	endSubject, restoreSubject := suspend(subject)
	endActor, restoreActor := suspend(actor)
	for _, change := range []struct {
		name         string
		end, restore func()
	}{
		{"suspension of its subject", endSubject, restoreSubject},
		{"suspension of its actor", endActor, restoreActor},
		{"narrower rule", allow(v1beta1.ExchangeScopes{"orders.write"}), allow(wide)},
	} {
		longest := time.Duration(0)
		for range *delegationTries {
			token := d.delegated(t)
			change.end()
			longest = max(longest, d.untilInactive(t, token, time.Now()))
			change.restore()
		}
		addRow(t, longest <= maxEnd, fmt.Sprintf("delegated token ends after a %s, longest of %d", change.name, *delegationTries), longest.Round(time.Millisecond).String(), "at most "+maxEnd.String())
	}
	result := running.Stop()
	t.Logf("load: %d tokens, %d failed %v", result.Tokens, result.Failed, result.Failures)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
}

// delegation gets and introspects tokens with which an actor acts for a subject.
type delegation struct {
	inst                *install.Installation
	servers             []*install.TokenServer
	clients             []*http.Client
	subject, actor, api *corev1.Secret
}

// delegated waits until every token server accepts a new delegated token, and returns it.
func (d *delegation) delegated(t *testing.T) (token string) {
	t.Helper()
	install.Eventually(t, "a delegated token that every token server accepts", func() error {
		subject, err := install.RequestToken(t, d.servers[0], d.clients[0], d.subject)
		if err != nil {
			return err
		}
		form := url.Values{
			"grant_type": {oauth.GrantTypeTokenExchange}, "subject_token_type": {oauth.TypeAccessToken},
			"subject_token": {subject.AccessToken}, "audience": {ordersAPI},
		}
		var response install.TokenResponse
		if err := d.post(t, 0, d.actor, string(d.actor.Data[v1beta1.SecretKeyTokenURL]), form, &response); err != nil {
			return err
		}
		token = response.AccessToken
		for i := range d.servers {
			active, err := d.active(t, i, token)
			switch {
			case err != nil:
				return err
			case !active:
				return fmt.Errorf("it is inactive at %s, response of the token endpoint: %s %s", d.servers[i].Name, response.Error, response.Description)
			}
		}
		return nil
	})
	return token
}

// untilInactive returns how long after a change the last token server stopped accepting the token.
func (d *delegation) untilInactive(t *testing.T, token string, changed time.Time) time.Duration {
	t.Helper()
	for i := range d.servers {
		install.Eventually(t, "the token to be inactive", func() error {
			// Ask again without the pause of Eventually, which is longer than what is measured.
			for range 50 {
				if active, err := d.active(t, i, token); err != nil || !active {
					return err
				}
			}
			return fmt.Errorf("it is active at %s", d.servers[i].Name)
		})
	}
	return time.Since(changed)
}

func (d *delegation) active(t *testing.T, server int, token string) (bool, error) {
	endpoint := strings.TrimSuffix(string(d.api.Data[v1beta1.SecretKeyTokenURL]), oauth.TokenPath) + oauth.IntrospectionPath
	var response struct {
		Active bool `json:"active"`
	}
	err := d.post(t, server, d.api, endpoint, url.Values{"token": {token}}, &response)
	return response.Active, err
}

func (d *delegation) post(t *testing.T, server int, credentials *corev1.Secret, endpoint string, form url.Values, into any) error {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", oauth.ContentTypeForm)
	req.SetBasicAuth(string(credentials.Data[v1beta1.SecretKeyClientID]), string(credentials.Data[v1beta1.SecretKeyClientSecret]))
	response, err := d.clients[server].Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

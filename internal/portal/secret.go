package portal

import (
	"cmp"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// secretPage shows a secret, this once.
type secretPage struct {
	Client        *v1alpha1.ApiClient
	Secret        string
	TokenEndpoint string
	// Known is false where the token endpoint is made up as a pattern.
	Known    bool
	Curl     string
	Snippets []snippet
}

type snippet struct{ Title, Text string }

// showSecret is the only answer that holds the secret. It isn't redirected to, for that would
// take keeping it.
func (p *portal) showSecret(w http.ResponseWriter, v *visit, c *v1alpha1.ApiClient, secret newSecret) error {
	page := secretPage{Client: c, Secret: secret.plain, TokenEndpoint: v.tokenEndpoint(c), Known: true}
	if page.TokenEndpoint == "" {
		page.TokenEndpoint, page.Known = "https://api.INSTANCE-DOMAIN/"+c.Spec.RealmRef.Name+"/oauth2/token", false
	}
	page.Curl, page.Snippets = snippets(page.TokenEndpoint, c, secret.plain)
	p.render(w, v, http.StatusOK, "secret.html", "Copy the secret", page)
	return nil
}

// tokenEndpoint is where the client gets tokens, as far as the person may see it; a new client
// doesn't say so yet, but its realm does.
func (v *visit) tokenEndpoint(c *v1alpha1.ApiClient) string {
	realm := &v1alpha1.Realm{}
	if c.Status.TokenEndpoint == "" && v.as.Get(v.ctx(), client.ObjectKey{Name: c.Spec.RealmRef.Name}, realm) != nil {
		return ""
	}
	return cmp.Or(c.Status.TokenEndpoint, realm.Status.TokenEndpoint)
}

// snippets are ways to get a token. Client id, secret and URL have no character that would mean
// something in any of these languages.
func snippets(endpoint string, c *v1alpha1.ApiClient, secret string) (curl string, others []snippet) {
	id := c.EffectiveClientID()
	curl = fmt.Sprintf(`curl --user '%s:%s' --data grant_type=client_credentials '%s'`, id, secret, endpoint)
	return curl, []snippet{
		{"Go", fmt.Sprintf(`// golang.org/x/oauth2/clientcredentials
config := clientcredentials.Config{
	ClientID:     %q,
	ClientSecret: %q,
	TokenURL:     %q,
}
client := config.Client(ctx) // sends a token with each request, and renews it
`, id, secret, endpoint)},
		{"Python", fmt.Sprintf(`import requests

answer = requests.post(
    %q,
    data={"grant_type": "client_credentials"},
    auth=(%q, %q),
    timeout=10,
)
answer.raise_for_status()
token = answer.json()["access_token"]
`, endpoint, id, secret)},
		{"Node.js", fmt.Sprintf(`const answer = await fetch(%q, {
  method: "POST",
  headers: { Authorization: "Basic " + btoa(%q + ":" + %q) },
  body: new URLSearchParams({ grant_type: "client_credentials" }),
});
const { access_token } = await answer.json();
`, endpoint, id, secret)},
		{"Kubernetes Secret", fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata:
  name: %s
  namespace: %s
type: Opaque
stringData:
  client_id: %q
  client_secret: %q
  token_url: %q
`, c.Name, c.Namespace, id, secret, endpoint)},
	}
}

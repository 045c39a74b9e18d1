package portal

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// secretPage is the data of the page that shows a new client secret.
type secretPage struct {
	Client        *v1beta1.ApiClient
	Secret        string
	TokenEndpoint string
	// EndpointKnown is false if TokenEndpoint contains a placeholder.
	EndpointKnown bool
	Curl          string
	Snippets      []snippet
}

type snippet struct{ Title, Text string }

// showSecret renders the only response that contains the secret. It doesn't
// redirect, because a redirect would require storing the secret.
func (p *portal) showSecret(w http.ResponseWriter, req *request, c *v1beta1.ApiClient, secret newSecret) error {
	page := secretPage{Client: c, Secret: secret.plain, TokenEndpoint: req.tokenEndpoint(c), EndpointKnown: true}
	if page.TokenEndpoint == "" {
		page.TokenEndpoint, page.EndpointKnown = "https://api.INSTANCE-DOMAIN/"+c.Spec.RealmRef.Name+"/oauth2/token", false
	}
	page.Curl, page.Snippets = snippets(page.TokenEndpoint, c, secret.plain)
	p.render(w, req, http.StatusOK, "secret.html", "Copy your client secret", page)
	return nil
}

// tokenEndpoint returns the client's token endpoint. A new client's status doesn't contain it yet,
// so it is read from the realm. If that fails, tokenEndpoint returns an empty string.
func (req *request) tokenEndpoint(c *v1beta1.ApiClient) string {
	if c.Status.TokenEndpoint != "" {
		return c.Status.TokenEndpoint
	}
	if realm := req.realmOf(c); realm != nil {
		return realm.Status.TokenEndpoint
	}
	return ""
}

// snippets returns code examples for getting a token. Each example quotes the client ID in its own
// language, because the author of the ApiClient chose it, and it can contain quotes and commands.
func snippets(endpoint string, c *v1beta1.ApiClient, secret string) (curl string, others []snippet) {
	id := c.EffectiveClientID()
	curl = "curl --user " + untrusted.Quote(id+":"+secret) + " --data grant_type=client_credentials " + untrusted.Quote(endpoint)
	return curl, []snippet{
		{"Go", fmt.Sprintf(`// golang.org/x/oauth2/clientcredentials
config := clientcredentials.Config{
	ClientID:     %+q,
	ClientSecret: %+q,
	TokenURL:     %+q,
}
client := config.Client(ctx) // adds a token to each request and refreshes it
`, id, secret, endpoint)},
		{"Python", fmt.Sprintf(`import requests

response = requests.post(
    %+q,
    data={"grant_type": "client_credentials"},
    auth=(%+q, %+q),
    timeout=10,
)
response.raise_for_status()
token = response.json()["access_token"]
`, endpoint, id, secret)},
		{"Node.js", fmt.Sprintf(`const response = await fetch(%s, {
  method: "POST",
  headers: { Authorization: "Basic " + btoa(%s + ":" + %s) },
  body: new URLSearchParams({ grant_type: "client_credentials" }),
});
const { access_token } = await response.json();
`, javaScript(endpoint), javaScript(id), javaScript(secret))},
		{"Kubernetes Secret", fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata:
  name: %+q
  namespace: %+q
type: Opaque
stringData:
  client_id: %+q
  client_secret: %+q
  token_url: %+q
`, c.Name, c.Namespace, id, secret, endpoint)},
	}
}

// javaScript returns a string literal. JSON is a subset of JavaScript.
func javaScript(s string) string {
	encoded, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return string(untrusted.EscapeJSON(encoded))
}

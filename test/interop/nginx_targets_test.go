package interop_test

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// testRequestTargets sends request targets to nginx that try to change what the gateway requires of
// a token, or which realm decides. It uses the guide's configuration, and the same with a path to
// which nginx appends the request target, as some gateways do.
func testRequestTargets(t *testing.T, i *installation) {
	tokens := map[string]string{
		"good":        i.token(t),
		"other scope": i.tokenOf(t, i.createClient(t, "targets-scope", func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"orders.write"} })),
		"other audience": i.tokenOf(t, i.createClient(t, "targets-audience", func(c *v1beta1.ApiClient) {
			c.Spec.Scopes, c.Spec.Audiences = []string{scope}, []string{otherAudience}
		})),
		"other realm": i.tokenOfRealm(t, "targets"),
		"no token":    "",
	}
	identity := map[string]string{"X-Auth-Client-Id": i.clientID, "X-Auth-Realm": i.realm.Name, "X-Auth-Scope": scope, "X-Auth-Subject": i.clientID}
	for name, change := range map[string]func(string) string{"path of the guide": asDocumented, "appended request target": func(config string) string { return appendTarget(t, config) }} {
		t.Run(name, func(t *testing.T) {
			n := i.startNginx(t, change)
			accepted := 0
			for _, target := range requestTargets() {
				for owner, token := range tokens {
					got := n.sendTarget(t, target, token)
					switch {
					case owner != "good" && (got.headers != nil || got.status < 400):
						t.Errorf("%s, %s: status %d and the API received %v, want a rejection", target, owner, got.status, got.headers)
					case owner == "good" && got.status == http.StatusOK:
						accepted++
						if diff := cmp.Diff(identity, got.headers); diff != "" {
							t.Errorf("%s: headers of the API's request (-want +got):\n%s", target, diff)
						}
					// nginx itself rejects some targets, and reserves the path that it uses to verify tokens.
					case owner == "good" && (got.headers != nil || got.status != http.StatusBadRequest && got.status != http.StatusNotFound):
						t.Errorf("%s: status %d and the API received %v, want 200, or 400 or 404 of nginx", target, got.status, got.headers)
					}
				}
			}
			if accepted < len(requestTargets())/2 {
				t.Errorf("only %d of %d targets are accepted with a good token", accepted, len(requestTargets()))
			}
		})
	}
}

// appendTarget changes the guide's configuration, so that nginx appends the request target to the
// path with the requirements.
func appendTarget(t *testing.T, config string) string {
	t.Helper()
	const documented = "proxy_pass https://realmkeeper/acme/oauth2/verify?scope=orders.read&audience=https%3A%2F%2Forders.acme.example&dpop=original;"
	if !strings.Contains(config, documented) {
		t.Fatalf("the guide's configuration doesn't contain %s", documented)
	}
	return strings.Replace(config, documented, "proxy_pass https://realmkeeper/acme"+requirePathOf(documentedRequirements)+"$request_uri;", 1)
}

func requirePathOf(query string) string {
	return "/oauth2/verify/require/" + base64.RawURLEncoding.EncodeToString([]byte(query))
}

// requestTargets returns paths, queries and absolute URLs that try to replace or extend the path and
// the query of the request to the token service.
func requestTargets() []string {
	const query = "?scope=orders.write&audience=https%3A%2F%2Fstock.acme.example"
	weaker := []string{
		requirePathOf("scope=orders.write"), requirePathOf("audience=" + otherAudience), requirePathOf("scope=" + scope),
		"/oauth2/verify", "/acme/oauth2/verify", "/targets/oauth2/verify", "/targets" + requirePathOf(documentedRequirements), "/_verify", "/",
	}
	targets := []string{
		"/", "/orders", "/orders?", "/" + query, "/orders" + query, "/orders?scope=&audience=", "/orders?audience", "/orders?access_token=x", "/?x=%zz",
		"/orders;scope=orders.write", "/orders#" + query, "/orders?a#/../..", "/orders%3Fscope=orders.write", "/orders%23", "/orders%0d%0aX-Auth-Scope:%20admin",
		"https://orders.acme.example", "https://orders.acme.example/", "https://orders.acme.example/orders" + query, "https://orders.acme.example" + query,
		"https://api.example.com/targets/oauth2/verify", "http://other.example/../../..", "https://orders.acme.example:1/acme/oauth2/verify",
		"*", "orders.acme.example:443", "//api.example.com/acme/oauth2/verify", "//", "///", `/\`, `\orders`, "/%", "/%2", "/%2f", "/%00", "/.", "/..", "/orders/..", "/orders/../..",
	}
	for _, path := range weaker {
		targets = append(targets, path, path+query, "https://orders.acme.example"+path, "/a//b//c"+strings.Repeat("/..", 7)+path)
		for _, up := range []string{"/..", "/%2e%2e", "/.%2E", "/..%2f..", `/..\..`, "/;/..", "/%252e%252e", "//"} {
			targets = append(targets, "/a/b/c"+strings.Repeat(up, 3)+path, "/a"+up+path+query)
		}
	}
	return targets
}

// sendTarget sends a GET request with the given request target, exactly as it is written.
func (n *nginx) sendTarget(t *testing.T, target, token string) nginxResponse {
	t.Helper()
	transport, ok := n.client.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("transport is %T", n.client.Transport)
	}
	connection, err := tls.Dial("tcp", strings.TrimPrefix(n.url, "https://"), &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	request := "GET " + target + " HTTP/1.1\r\nHost: orders.acme.example\r\nConnection: close\r\n"
	if token != "" {
		request += "Authorization: Bearer " + token + "\r\n"
	}
	if _, err := io.WriteString(connection, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return nginxResponse{response.StatusCode, response.Header.Get("WWW-Authenticate"), n.received()}
}

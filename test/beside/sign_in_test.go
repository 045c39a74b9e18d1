//go:build beside

package beside_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-jose/go-jose/v4"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/chromium"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// TestOIDCProvider signs users in to the portal at oidc-provider, which restarts with other keys, and stops.
func TestOIDCProvider(t *testing.T) {
	if !selected(t, oidcProviderHeading) {
		return
	}
	cluster := env.Start(t)
	i := install.New(t, cluster, install.Settings{})
	i.ApplyFile(t, "config", "rbac", "manage_api_credentials_role.yaml")
	p := newOIDCProvider(t)
	portal := i.StartProviderPortal(t, p.issuer, "kubernetes", p.authority, "--oidc-scopes", "groups")
	p.portal = portal.URL
	oldKey, newKey, anotherKind := rsaKey(t), rsaKey(t), ecdsaKey(t)
	p.restart(t, jose.RS256, oldKey)

	certificate, err := os.ReadFile(p.authority)
	if err != nil {
		t.Fatal(err)
	}
	indented := strings.ReplaceAll(strings.TrimSpace(string(certificate)), "\n", "\n        ")
	authentication := strings.NewReplacer("https://login.example.com", p.issuer, "CERTIFICATE_AUTHORITY", indented).Replace(p.block(t, "yaml"))
	if err := os.WriteFile(cluster.AuthenticationConfig, []byte(authentication), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := strings.Fields(strings.TrimPrefix(p.block(t, "console"), "$ kubectl "))
	cluster.Kubectl(t, arguments...)
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "clusterrolebinding", arguments[2]) })

	seen := map[string]string{}
	eventually(t, time.Minute, "the API server to trust the provider", func() bool {
		_, seen["a user in the group"] = p.signIn(t, "grace")
		return !strings.HasPrefix(seen["a user in the group"], "Kubernetes rejected")
	})
	_, seen["another user"] = p.signIn(t, "nobody")

	session, _ := p.signIn(t, "grace")
	p.restart(t, jose.RS256, newKey)
	time.Sleep(11 * time.Second) // The API server remembers tokens for 10 seconds.
	seen["a session after the key was replaced"] = p.open(session, t, p.portal)
	_, seen["new key"] = p.signIn(t, "grace")
	time.Sleep(11 * time.Second)
	seen["a session after another sign-in with the new key"] = p.open(session, t, p.portal)
	p.restart(t, jose.ES256, anotherKind)
	_, seen["new algorithm"] = p.signIn(t, "grace")

	p.restart(t, jose.ES256, anotherKind, "8 * 60 * 60", "15")
	session, valid := p.signIn(t, "grace")
	eventually(t, time.Minute, "the session to expire", func() bool {
		seen["a session with an expired token"] = p.open(session, t, p.portal)
		return seen["a session with an expired token"] != valid
	})
	p.restart(t, jose.ES256, anotherKind, "conformIdTokenClaims: false", "conformIdTokenClaims: true")
	_, seen["without conformIdTokenClaims: false"] = p.signIn(t, "grace")

	// Portals that have never reached the provider.
	restarted := i.StartProviderPortal(t, p.issuer, "kubernetes", p.authority)
	untrusting := i.StartProviderPortal(t, p.issuer, "kubernetes", "/etc/ssl/certs/ca-certificates.crt")
	begin := func(url string) string { return p.open(p.tab(t), t, url+"/sign-in/begin") }
	seen["other CA"] = begin(untrusting.URL)
	resume := pause(t, p.process)
	seen["a restarted portal without a response"] = begin(restarted.URL)
	resume()
	p.restart(t, jose.ES256, anotherKind)
	session, _ = p.signIn(t, "grace")
	if err := p.process.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	time.Sleep(outage)
	seen["a session during an outage"] = p.open(session, t, p.portal)
	seen["a restarted portal during an outage"] = begin(restarted.URL)
	p.restart(t, jose.ES256, anotherKind)
	_, seen["after the outage"] = p.signIn(t, "grace")

	if diff := gocmp.Diff(p.outcomes("Sign-in"), seen); diff != "" {
		t.Errorf("(-docs/works-with/%s +seen):\n%s", oidcProviderPage, diff)
	}
}

// oidcProvider is oidc-provider with the configuration on its page, and a browser.
type oidcProvider struct {
	setup
	portal  string // the URL of its portal
	process *process.Process
	browser context.Context
}

// newOIDCProvider returns a provider that doesn't run yet. Its certificate is of its own CA.
func newOIDCProvider(t *testing.T) *oidcProvider {
	t.Helper()
	p := &oidcProvider{browser: chromium.Start(t), setup: setup{
		section: readSection(t, oidcProviderPage, oidcProviderHeading), dir: t.TempDir(), address: "127.0.0.1:" + reservePort(t),
	}}
	p.issuer = "https://" + p.address
	p.writeCertificate(t)
	p.authority = filepath.Join(p.dir, "tls.crt")
	return p
}

// oidcProviderMain serves the provider on the page.
const oidcProviderMain = `
import { createServer } from 'node:https'
function groupsOf(user) { return user === 'grace' ? ['platform'] : [] }
createServer({ key: readFileSync('DIR/tls.key'), cert: readFileSync('DIR/tls.crt') }, provider.callback()).listen(PORT, '127.0.0.1')
`

// restart starts the provider with only this key. Each pair is an old and a new text of its configuration.
func (p *oidcProvider) restart(t *testing.T, algorithm jose.SignatureAlgorithm, key crypto.Signer, pairs ...string) {
	t.Helper()
	if p.process != nil {
		if err := p.process.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: rand.Text(), Algorithm: string(algorithm), Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		t.Fatal(err)
	}
	u := p.setup
	u.section = section(strings.NewReplacer(append(pairs,
		"https://login.example.com", p.issuer, "https://portal.example.com", p.portal, "/etc/oidc-provider/jwks.json", p.write(t, "jwks.json", string(set)),
		"RS256", string(algorithm))...).Replace(string(u.section)))
	main := u.node(t, strings.NewReplacer("DIR", p.dir, "PORT", port).Replace(oidcProviderMain))
	p.process = p.start(t, process.Command{Name: "oidc-provider", Path: "/usr/bin/env", Args: main}, reachable(p.address))
}

// tab returns a tab without cookies.
func (p *oidcProvider) tab(t *testing.T) context.Context {
	t.Helper()
	return chromium.Tab(p.browser, t, chromedp.WithNewBrowserContext())
}

// signIn signs a user in to the portal with the pages of the provider, and returns the tab and what it shows.
func (p *oidcProvider) signIn(t *testing.T, user string) (tab context.Context, shows string) {
	t.Helper()
	tab = p.tab(t)
	const form, button = "input[name=login]", "button[type=submit]"
	p.open(tab, t, p.portal+"/sign-in/begin")
	chromium.Run(tab, t, "Filling the form", chromedp.SetValue(form, user))
	chromium.Run(tab, t, "Filling the form", chromedp.SetValue("input[name=password]", "any"))
	for range 2 { // The second page asks for the user's consent.
		ctx, stop := context.WithTimeout(tab, chromium.Timeout)
		_, err := chromedp.RunResponse(ctx, chromedp.Click(button))
		stop()
		if err != nil {
			t.Fatalf("%v at the page %q", err, p.open(tab, t, ""))
		}
	}
	return tab, p.open(tab, t, "")
}

// open opens a page, unless the URL is empty, and returns what it shows.
func (p *oidcProvider) open(tab context.Context, t *testing.T, url string) string {
	t.Helper()
	if url != "" {
		chromium.Run(tab, t, "Opening "+url, chromedp.Navigate(url))
	}
	return chromium.Run(tab, t, "Reading the page", chromedp.Evaluate[string](`(() => {
		const problem = document.querySelector(".problem"), role = "You need the role Manage api credentials"
		if (problem) return problem.innerText.split('. ')[0]
		if (document.body.innerText.includes(role)) return role
		return document.querySelector("h1")?.innerText ?? ""
	})()`))
}

func rsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ecdsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

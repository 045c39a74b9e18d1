package keycloak_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/migrationtest"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration/keycloak"
)

// secret is in the exports of the tests. It must not appear in anything that is written.
const secret = "a canary, which is not a secret"

// zeros is a source of salts, so that hashes are the same each time.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func read(content, realm string) (*migration.Export, error) {
	return keycloak.Read(context.Background(), keycloak.Input{Name: "realm.json", Content: []byte(content), Realm: realm, Random: zeros{}})
}

// export returns an export with the client "a".
func export(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"realm":"shop","clients":[{"clientId":"a","serviceAccountsEnabled":true` + members + `}]}`
}

func attributes(all string) string {
	return export(`"clientAuthenticatorType":"client-jwt","attributes":{` + all + `}`)
}

// The export in testdata has the form of Keycloak 26. Its secrets mean nothing.
//
//go:embed testdata/realm.json
var exported string

func TestExportOfRealm(t *testing.T) {
	e := testkit.Value(read(exported, ""))(t)
	var moved []string
	for _, c := range e.Clients {
		moved = append(moved, fmt.Sprintf("%s scopes=%s audiences=%s lifetime=%s secrets=%d keys=%d disabled=%t bound=%t %s",
			c.ID, strings.Join(c.Scopes, ","), strings.Join(c.Audiences, ","), c.TokenLifetime, len(c.Hashes), len(c.PublicKeys), c.Disabled, c.BindTokens, c.Description))
	}
	const both = "scopes=orders.read,orders.write audiences="
	want := []string{
		"Invoices_Service " + both + "https://orders.example.com lifetime=30m0s secrets=1 keys=0 disabled=false bound=false Invoices",
		"audience-of-a-client " + both + "orders-api lifetime=0s secrets=1 keys=0 disabled=false bound=false ",
		"billing " + both + " lifetime=0s secrets=1 keys=0 disabled=false bound=false Charges customers",
		"certificate " + both + " lifetime=0s secrets=0 keys=1 disabled=false bound=false ",
		"disabled " + both + " lifetime=0s secrets=1 keys=0 disabled=true bound=false ",
		"dpop " + both + " lifetime=0s secrets=1 keys=0 disabled=false bound=true ",
		"inline-keys " + both + " lifetime=0s secrets=0 keys=1 disabled=false bound=false ",
		"rotated " + both + " lifetime=0s secrets=1 keys=0 disabled=false bound=false ",
		"with-roles " + both + " lifetime=0s secrets=1 keys=0 disabled=false bound=false ",
	}
	if diff := cmp.Diff(want, moved); diff != "" || e.TokenLifetime != 5*time.Minute {
		t.Errorf("Default lifetime %s; clients that can move (-want +got):\n%s", e.TokenLifetime, diff)
	}
	wantNotImported := []string{
		"Invoices Service", "https://shop.example.com/saml", "keys-at-url", "long-lifetime", "masked", "orders-api", "placeholder",
		"shop", "shop-backend", "short", "signed-with-secret", "without-secret", "x509",
	}
	var notImported []string
	for _, f := range e.NotImported {
		notImported = append(notImported, f.ClientID)
	}
	testkit.Diff(t, "Clients that can't move", wantNotImported, notImported)
	i := slices.IndexFunc(e.Clients, func(c migration.Client) bool { return c.ID == "billing" })
	verifier, err := clientsecret.ParseVerifier(e.Clients[i].Hashes[0])
	if err != nil || !verifier.Verify("not+a%20secret:100%-billing") {
		t.Errorf("the hash of a client doesn't accept its secret, error %v", err)
	}
	admitted(t, e)
}

func TestReasons(t *testing.T) {
	const secretMember = `"secret":"` + secret + `"`
	for name, tc := range map[string]struct {
		content string
		want    string // in the only reason; empty: the client moves
		warning string
	}{
		"no secret":                 {export(""), "kc.sh export", ""},
		"control character":         {export(`"secret":"` + secret + `\u0000"`), "control characters", ""},
		"built in, with a secret":   {strings.Replace(export(secretMember), `"a"`, `"account"`, 1), "", ""},
		"built in, without use":     {`{"realm":"shop","clients":[{"clientId":"broker"}]}`, "", ""},
		"lifetime of the realm":     {export(secretMember + `,"attributes":{"access.token.lifespan":"-1"}`), "", ""},
		"lifetime overflows":        {export(secretMember + `,"attributes":{"access.token.lifespan":"9223372036854775807"}`), "between 10s and 24h", ""},
		"no keys":                   {attributes(""), "no certificate", ""},
		"no JWK Set":                {attributes(`"use.jwks.string":"true"`), "not a JWK Set", ""},
		"certificate isn't Base64":  {attributes(`"jwt.credential.certificate":"canary!"`), "no certificate", ""},
		"certificate can't be read": {attributes(`"jwt.credential.certificate":"AAAA"`), "cannot be read", ""},
		"Ed25519 key as PEM":        {attributes(`"jwt.credential.public.key":"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n","jwt.credential.kid":"k"`), "", ""},
		"Ed25519 key for RSA":       {attributes(`"jwt.credential.public.key":"MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=","token.endpoint.auth.signing.alg":"RS256"`), "not supported", ""},
		"ID of a key with a space":  {attributes(`"jwt.credential.public.key":"MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=","jwt.credential.kid":"k 1"`), "ID of its key", ""},
		"audience not in the token": {export(secretMember + `,"protocolMappers":[{"protocolMapper":"oidc-audience-mapper","config":{"included.custom.audience":"# #","access.token.claim":"false"}}]`), "", ""},
		"rotated secret":            {export(secretMember + `,"attributes":{"client.secret.rotated":"` + secret + `"}`), "", "rotated secret"},
		"certificate-bound tokens":  {export(secretMember + `,"attributes":{"tls.client.certificate.bound.access.tokens":"true"}`), "", "bound to a TLS certificate"},
		"every scope":               {export(secretMember + `,"defaultClientScopes":["*"]`), "every scope of the realm", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := testkit.Value(read(tc.content, ""))(t)
			migrationtest.CheckFinding(t, "reason", e.NotImported, tc.want)
			migrationtest.CheckFinding(t, "warning", e.Warnings, tc.warning)
			if all := migrationtest.Messages(slices.Concat(e.NotImported, e.Warnings)); strings.Contains(strings.Join(all, ""), "canary") {
				t.Errorf("the findings %q contain a secret", all)
			}
			admitted(t, e)
		})
	}
}

func TestFilesThatAreNotImported(t *testing.T) {
	two := "[" + export("") + "," + strings.Replace(export(""), "shop", "other", 1) + "]"
	for name, tc := range map[string]struct {
		content, realm string
		want           error // nil: accepted
	}{
		"another realm":          {export(""), "other", keycloak.ErrRealm},
		"array of one":           {"[" + export("") + "]", "", nil},
		"array of two, selected": {two, "other", nil},
		"two objects":            {export("") + strings.Replace(export(""), "shop", "other", 1), "", keycloak.ErrRealm},
		"empty":                  {"", "", migration.ErrDamaged},
		"empty array":            {"[]", "", keycloak.ErrRealm},
		"truncated":              {export(`"secret":"` + secret + `"`)[:100], "", migration.ErrDamaged},
		"users of a realm":       {`{"realm":"shop","users":[]}`, "", migration.ErrDamaged},
		"client twice":           {`{"realm":"shop","clients":[{"clientId":"a"},{"clientId":"a"}]}`, "", migration.ErrDamaged},
		"client without ID":      {`{"realm":"shop","clients":[{"secret":"` + secret + `"}]}`, "", migration.ErrDamaged},
		"secret without quotes":  {export(`"secret":` + secret), "", migration.ErrDamaged},
		"attribute is a number":  {export(`"attributes":{"access.token.lifespan":300}`), "", migration.ErrDamaged},
		"attribute is null":      {export(`"attributes":{"access.token.lifespan":null}`), "", nil},
		"realm twice":            {"[" + export("") + "," + export("") + "]", "shop", migration.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := read(tc.content, tc.realm)
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || (e == nil) == (tc.want == nil) {
				t.Fatalf("got %+v and error %v, want %v", e, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error %q contains a secret", err)
			}
		})
	}
	for _, seconds := range []string{"0", "9", "86401", "-9223372036854775808"} {
		if _, err := read(`{"realm":"shop","clients":[],"accessTokenLifespan":`+seconds+`}`, ""); err == nil {
			t.Errorf("accepted a realm with a token lifetime of %s seconds", seconds)
		}
	}
}

// A client that cannot get tokens in Keycloak becomes a suspended ApiClient.
func TestDisabledClients(t *testing.T) {
	const enabled = `{"realm":"shop","enabled":true,"clients":[{"clientId":"a","enabled":true,"serviceAccountsEnabled":true,"secret":"` + secret + `"}],` +
		`"users":[{"serviceAccountClientId":"a","enabled":true},{"enabled":false},{"serviceAccountClientId":"b","enabled":false}]}`
	for name, tc := range map[string]struct {
		change, by string
		want       bool
	}{
		"all are enabled": {"shop", "shop", false},
		"client":          {`"clientId":"a","enabled":true`, `"clientId":"a","enabled":false`, true},
		"service account": {`"serviceAccountClientId":"a","enabled":true`, `"serviceAccountClientId":"a","enabled":false`, true},
		"realm":           {`"realm":"shop","enabled":true`, `"realm":"shop","enabled":false`, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := testkit.Value(read(strings.ReplaceAll(enabled, tc.change, tc.by), ""))(t)
			if len(e.Clients) != 1 || e.Clients[0].Disabled != tc.want {
				t.Errorf("got the clients %+v, want one with disabled %t", e.Clients, tc.want)
			}
		})
	}
}

// admitted fails the test unless the rules of the API accept the objects, or if they contain the
// secret.
func admitted(t testing.TB, e *migration.Export) {
	t.Helper()
	for file, content := range migrationtest.Manifests(t, e, migrationtest.Target) {
		if strings.Contains(content, secret) {
			t.Errorf("%s contains a secret:\n%s", file, content)
		}
	}
}

// Hashing many secrets takes long, so it can be interrupted.
func TestInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := keycloak.Read(ctx, keycloak.Input{Content: []byte(export(`"secret":"` + secret + `"`)), Random: zeros{}})
	if !errors.Is(err, context.Canceled) || e != nil {
		t.Errorf("got %+v and error %v, want %v", e, err, context.Canceled)
	}
}

// Whatever the file contains, the API accepts what is written. Secrets are fixed, because hashing is
// slow.
func FuzzRead(f *testing.F) {
	f.Add(export(`"attributes":{"access.token.lifespan":"60"},"defaultClientScopes":["a"]`), "")
	f.Add(attributes(`"jwt.credential.public.key":"MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="`), "shop")
	f.Add("["+export("")+"]", "shop")
	f.Add(`{"realm":"shop","accessTokenLifespan":60,"clients":[],"clientScopes":[{"name":"a","attributes":{"include.in.token.scope":"false"}}],"users":[{"serviceAccountClientId":"a","realmRoles":["x"]}]}`, "")
	f.Fuzz(func(t *testing.T, content, realm string) {
		if strings.Contains(content, `"secret"`) {
			return
		}
		e, err := read(content, realm)
		if err != nil {
			return
		}
		admitted(t, e)
	})
}

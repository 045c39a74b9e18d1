package hydra_test

import (
	"embed"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/migrationtest"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration/hydra"
)

const hash = "$pbkdf2-sha256$i=25000,l=32$CABI/y5hPsdrC8hIVzOUWA$iE55mgmaFgVqcSWmP/u+VvKmN93XQOh0S5iPX5KvmM8"

func read(hashes string, pages ...string) (*migration.Export, error) {
	input := hydra.Input{Hashes: hydra.File{Name: "hashes.txt", Content: []byte(hashes)}, TokenLifetime: time.Hour}
	for _, page := range pages {
		input.Clients = append(input.Clients, hydra.File{Name: "clients.json", Content: []byte(page)})
	}
	return hydra.Read(input)
}

// client returns the JSON of a client with the ID "a".
func client(members string) string {
	if members != "" {
		members = "," + members
	}
	return `[{"client_id":"a","grant_types":["client_credentials"]` + members + `}]`
}

// The files in testdata were made by a real Hydra: 37 clients with hashes of PBKDF2 and bcrypt.
// secrets.json has the secrets of most of them, which mean nothing outside of tests.
//
//go:embed testdata
var testdata embed.FS

func TestExportOfHydra(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"clients-1.json", "clients-2.json", "hashes.txt"} {
		content := testkit.Value(testdata.ReadFile("testdata/" + name))(t)
		files[name] = string(content)
	}
	got := testkit.Value(read(files["hashes.txt"], files["clients-1.json"], files["clients-2.json"]))(t)
	var notImported []string
	for _, f := range got.NotImported {
		notImported = append(notImported, f.ClientID)
	}
	want := []string{
		"fixture+plus", "fixture-bcrypt-cost-13", "fixture-bcrypt-cost-4", "fixture-jwks-uri", "fixture-key-rs512",
		"fixture-long-lifetime", "fixture-public", "fixture-rotated-twice", "fixture-web", "fixture:colon",
	}
	testkit.Diff(t, "Clients that can't move", want, notImported)
	wantWarnings := []string{
		`fixture-key: its scope "orders.*" matches other scopes in Hydra, but not here; add the scopes that it requests to the ApiClient and the Realm`,
		"fixture-metadata: these grant types have no equivalent and are dropped: authorization_code",
		"fixture-metadata: these settings have no equivalent and are dropped: allowed_cors_origins, contacts, metadata, owner",
	}
	testkit.Diff(t, "Warnings", wantWarnings, migrationtest.Messages(got.Warnings))
	testkit.Diff(t, "clients that can move", 27, len(got.Clients))
	i := slices.IndexFunc(got.Clients, func(c migration.Client) bool { return c.ID == "fixture-pbkdf2-0005" })
	wantClient := migration.Client{
		ID: "fixture-pbkdf2-0005", Description: "Fixture 5 (pbkdf2)", Scopes: []string{"orders.read", "orders.write"},
		Audiences: []string{"https://orders.example.com"}, TokenLifetime: 30 * time.Minute, Hashes: got.Clients[i].Hashes,
	}
	if diff := cmp.Diff(wantClient, got.Clients[i]); diff != "" || !strings.Contains(files["hashes.txt"], "fixture-pbkdf2-0005|"+got.Clients[i].Hashes[0]+"\n") {
		t.Errorf("Client (-want +got):\n%s", diff)
	}
	migrationtest.Manifests(t, got, migrationtest.Target)

	// Pages in another order, in one file, and with line breaks of Windows give the same.
	again, err := read("\xef\xbb\xbf"+strings.ReplaceAll(files["hashes.txt"], "\n", "\r\n"), files["clients-2.json"]+"\r\n"+files["clients-1.json"])
	if diff := cmp.Diff(got, again); err != nil || diff != "" {
		t.Errorf("Error %v; another order of pages (-first +second):\n%s", err, diff)
	}
}

func TestReasons(t *testing.T) {
	const rsa = `"kty":"RSA","use":"sig","e":"AQAB","n":"pwIXtKESKWe2CML0l587WMAqkjuo04Q-lzm19--KiXDmAOMy5mEIDsZdlUVlm3ZUrAzJA6EOxjrH6nnLLmjUGqVVgVSKYOYOhGf_qt76HBkSK5hHJBtGgvC5pJxJ6du-Nyp2jQ3egSRxDccb6g5M5rppVg9T-KXmCSRwpj6ua74AT08396gdJLB0eQ19ex0uqAdDYAoA6xWpW6FAWfIxVlNw4nIqamkxm7X9jfZacAO0Jb6zUbBDDJAnb5CfBbO2MYeg99CJciA1KS-WYh-keoE4FUeOS_LBRJdz3GHMuKpmyf1cu2l-8xnUTVrCYQl9f2kIHR9tWOG-noQFD4VMGw"`
	private := `{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}`
	keyed := func(members string) string {
		return client(`"token_endpoint_auth_method":"private_key_jwt",` + members)
	}
	for name, tc := range map[string]struct {
		hashes, page string
		want         string // in the only reason; empty: the client moves
		warning      string
	}{
		"secret":                   {"a|" + hash, client(""), "", ""},
		"same hash twice":          {"a|" + hash + "\na|" + hash, client(""), "", ""},
		"no hash":                  {"", client(""), "not in the file with the hashes", ""},
		"plaintext as hash":        {"a|hunter2", client(""), "hash must have the form", ""},
		"HMAC":                     {"a|$hmac-sha256$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", client(""), "hash scheme not supported", ""},
		"one of two is too easy":   {"a|" + hash + "\na|" + strings.Replace(hash, "25000", "9999", 1), client(""), "too easy", ""},
		"hash of another client":   {"a|" + hash + "\nb|" + hash, client(""), "pass all pages", ""},
		"public":                   {"a|" + hash, client(`"token_endpoint_auth_method":"none"`), "public client", ""},
		"unknown method":           {"a|" + hash, client(`"token_endpoint_auth_method":"tls_client_auth"`), "authentication method is not supported", ""},
		"RSA key, PS256":           {"", keyed(`"token_endpoint_auth_signing_alg":"PS256","jwks":{"keys":[{` + rsa + `}]}`), "", ""},
		"only an encryption key":   {"", keyed(`"jwks":{"keys":[{` + strings.Replace(rsa, "sig", "enc", 1) + `}]}`), "no key that verifies", ""},
		"private key":              {"", keyed(`"jwks":{"keys":[` + private + `]}`), "private key", ""},
		"ID of a key with a space": {"", keyed(`"jwks":{"keys":[{"kid":"k 1",` + rsa + `}]}`), "the ID of key 1", ""},
		"no key set":               {"", keyed(`"client_name":"x"`), "not a JWK Set", ""},
		"every scope":              {"a|" + hash, client(`"scope":"* a"`), "", `its scope "*"`},
		"member in another case":   {"a|" + hash, client(`"scope":"a","Scope":"admin"`), "", `the member "Scope" of 1 clients`},
		"unknown member":           {"a|" + hash, client(`"new":1`), "", `the member "new" of 1 clients`},
		"empty settings":           {"a|" + hash, client(`"metadata":{},"contacts":[],"owner":""`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := testkit.Value(read(tc.hashes, tc.page))(t)
			migrationtest.CheckFinding(t, "reason", e.NotImported, tc.want)
			migrationtest.CheckFinding(t, "warning", e.Warnings, tc.warning)
			if moves := tc.want == "" || strings.HasPrefix(tc.want, "pass all"); moves != (len(e.Clients) == 1) {
				t.Errorf("%d clients can move, want %t", len(e.Clients), moves)
			}
			for _, c := range e.Clients {
				if slices.Contains(c.Scopes, "admin") {
					t.Errorf("the client moved with the scope %q, which it did not have", "admin")
				}
				if slices.Contains(c.Scopes, "*") { // it would be every scope of the realm in a grant
					t.Errorf("the client moved with the scopes %q", c.Scopes)
				}
			}
			for _, message := range slices.Concat(migrationtest.Messages(e.NotImported), migrationtest.Messages(e.Warnings)) {
				if strings.Contains(message, "hunter2") || strings.Contains(message, "nWGxne") {
					t.Errorf("the message %q contains a secret", message)
				}
			}
			migrationtest.Manifests(t, e, migrationtest.Target)
		})
	}
}

// A file that is damaged could lack clients, so nothing is imported.
func TestDamagedFiles(t *testing.T) {
	for name, tc := range map[string]struct{ hashes, page string }{
		"an object":                  {"", `{"client_id":"a"}`},
		"truncated":                  {"", client("")[:20]},
		"a string":                   {"", `"a"`},
		"null instead of a page":     {"", "null"},
		"UTF-16":                     {"", "\xff\xfe[\x00]\x00"},
		"no ID":                      {"", `[{}]`},
		"member twice":               {"", client(`"scope":"a","scope":"b"`)},
		"UTF-16 hashes":              {"\xff\xfea\x00|\x00$\x00", client("")},
		"another column":             {"a|" + hash + "|b", client("")},
		"columns swapped":            {hash + "|a", client("")},
		"columns swapped, weak hash": {strings.Replace(hash, "25000", "9999", 1) + "|a", client("")},
		"client twice":               {"", `[{"client_id":"a"},{"client_id":"a"}]`},
		"hash without ID":            {"|" + hash, client("")},
		"line without separator":     {"a\t" + hash, client("")},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := read(tc.hashes, tc.page)
			if !errors.Is(err, migration.ErrDamaged) || e != nil {
				t.Fatalf("got %+v and error %v, want %v", e, err, migration.ErrDamaged)
			}
			if strings.Contains(err.Error(), hash) {
				t.Errorf("the error %q contains a hash", err)
			}
		})
	}
}

// Whatever the files contain, the API accepts what is written, and the result doesn't depend on the
// order of clients.
func FuzzRead(f *testing.F) {
	f.Add("a|"+hash+"\n", client(`"scope":"a b","audience":["https://a.example"],"client_name":"x"`))
	f.Add("a|"+hash+"\r\nb|x", `{"items":[{"client_id":"a","grant_types":["client_credentials"],"client_credentials_grant_access_token_lifespan":"30m"}]}`)
	f.Add("", client(`"token_endpoint_auth_method":"private_key_jwt","jwks":{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add("a|b|"+hash, `[{"client_id":"a|b","grant_types":["client_credentials"],"new":1}]`)
	f.Fuzz(func(t *testing.T, hashes, page string) {
		e, err := read(hashes, page)
		if err != nil {
			if !errors.Is(err, migration.ErrDamaged) || e != nil {
				t.Fatalf("got %+v and error %v", e, err)
			}
			return
		}
		migrationtest.Manifests(t, e, migrationtest.Target)
	})
}

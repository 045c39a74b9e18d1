package migration_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/migrationtest"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

const (
	hash      = "$pbkdf2-sha256$i=25000,l=32$CABI/y5hPsdrC8hIVzOUWA$iE55mgmaFgVqcSWmP/u+VvKmN93XQOh0S5iPX5KvmM8"
	otherHash = "$2b$08$xDY72mDg7GHRzbxh5IyHOO.qKYos615JPr2CWCVhKwLk1TENWwdGG"
)

var target = migrationtest.Target

// export returns a sorted export with the clients. Those without a credential get a secret.
func export(clients ...migration.Client) *migration.Export {
	e := &migration.Export{TokenLifetime: time.Hour}
	for _, c := range clients {
		if len(c.Hashes)+len(c.PublicKeys) == 0 {
			c.Hashes = []string{hash}
		}
		e.Add(c)
	}
	e.Sort()
	return e
}

func TestManifests(t *testing.T) {
	e := export(
		migration.Client{ID: "Billing", Description: "Charges: customers", Scopes: []string{"b", "a", "b"}, Audiences: []string{"https://orders.example.com"}, TokenLifetime: 30 * time.Minute, Hashes: []string{hash, otherHash}},
		migration.Client{ID: "stock", Disabled: true, BindTokens: true, PublicKeys: []migration.PublicKey{{ID: "k", JWK: `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`}}},
	)
	want := map[string]string{
		"realm.yaml": `apiVersion: auth.realmkeeper.dev/v1beta1
kind: Realm
metadata:
  name: acme
spec:
  audiences:
  - acme
  - https://orders.example.com
  grants:
  - audiences:
    - acme
    - https://orders.example.com
    clientIDs:
    - Billing
    - stock
    name: hydra-1
    namespaces:
      names:
      - acme-apps
    scopes:
    - a
    - b
  scopes:
  - a
  - b
  tokenLifetime: 1h0m0s
`,
		"apiclient-billing-3ac8bbca.yaml": `apiVersion: auth.realmkeeper.dev/v1beta1
kind: ApiClient
metadata:
  name: billing-3ac8bbca
  namespace: acme-apps
spec:
  audiences:
  - https://orders.example.com
  clientID: Billing
  description: 'Charges: customers'
  realmRef:
    name: acme
  scopes:
  - a
  - b
  secret:
    hashed:
    - hashSecretRef:
        key: hydra
        name: billing-3ac8bbca-hashes
      id: hydra
    - hashSecretRef:
        key: hydra-2
        name: billing-3ac8bbca-hashes
      id: hydra-2
  tokenLifetime: 30m0s
`,
		"secret-billing-3ac8bbca.yaml": `apiVersion: v1
kind: Secret
metadata:
  labels:
    auth.realmkeeper.dev/client-secret: "true"
  name: billing-3ac8bbca-hashes
  namespace: acme-apps
stringData:
  hydra: ` + hash + `
  hydra-2: ` + otherHash + `
`,
		"apiclient-stock.yaml": `apiVersion: auth.realmkeeper.dev/v1beta1
kind: ApiClient
metadata:
  name: stock
  namespace: acme-apps
spec:
  audiences:
  - acme
  clientID: stock
  publicKeys:
  - jwk: '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}'
    keyID: k
  realmRef:
    name: acme
  senderConstraint: DPoP
  suspend: true
`,
	}
	testkit.Diff(t, "Manifests", want, migrationtest.Manifests(t, e, target))
}

// The lifetime of the realm is at least that of each client, and no client gets a longer one.
func TestLifetimesStayTheSame(t *testing.T) {
	e := export(migration.Client{ID: "long", TokenLifetime: 24 * time.Hour}, migration.Client{ID: "default"})
	got := migrationtest.Manifests(t, e, target)
	for file, want := range map[string]string{
		"realm.yaml":             "  tokenLifetime: 24h0m0s\n",
		"apiclient-default.yaml": "  tokenLifetime: 1h0m0s\n",
	} {
		if !strings.Contains(got[file], want) {
			t.Errorf("%s lacks %q:\n%s", file, want, got[file])
		}
	}
	if strings.Contains(got["apiclient-long.yaml"], "tokenLifetime") {
		t.Errorf("a client with the lifetime of the realm has its own:\n%s", got["apiclient-long.yaml"])
	}
}

// The audience of clients that have none must not be that of an API.
func TestAudienceIsNameOfRealm(t *testing.T) {
	with := migration.Client{ID: "a", Audiences: []string{"acme"}}
	without := migration.Client{ID: "b"}
	if _, err := export(with, without).Manifests(target); !errors.Is(err, migration.ErrAudience) || !strings.Contains(err.Error(), "--realm") {
		t.Errorf("a client without an audience, and one with that of the realm: error %v, want %v", err, migration.ErrAudience)
	}
	for name, clients := range map[string][]migration.Client{"all have it": {with}, "all have none": {without}} {
		if _, err := export(clients...).Manifests(target); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each grant allows what its clients need, and no more.
func TestGrantsListClientIDs(t *testing.T) {
	var clients []migration.Client
	for i := range 65 {
		clients = append(clients, migration.Client{ID: fmt.Sprintf("c-%03d", i), Scopes: []string{fmt.Sprintf("s%d", i/64)}})
	}
	anyID := target
	anyID.AnyClientID = true
	for name, tc := range map[string]struct {
		target migration.Target
		want   []string
	}{
		"client IDs": {target, []string{
			"hydra-1: 16 IDs from c-000 to c-015, scopes [s0]", "hydra-2: 16 IDs from c-016 to c-031, scopes [s0]",
			"hydra-3: 16 IDs from c-032 to c-047, scopes [s0]", "hydra-4: 16 IDs from c-048 to c-063, scopes [s0]", "hydra-5: 1 IDs from c-064 to c-064, scopes [s1]",
		}},
		"any client ID": {anyID, []string{"hydra-1: 1 IDs from * to *, scopes [s0 s1]"}},
	} {
		var realm v1beta1.Realm
		testkit.Do(t, yaml.Unmarshal([]byte(migrationtest.Manifests(t, export(clients...), tc.target)["realm.yaml"]), &realm))
		var got []string
		for _, g := range realm.Spec.Grants {
			got = append(got, fmt.Sprintf("%s: %d IDs from %s to %s, scopes %v", g.Name, len(g.ClientIDs), g.ClientIDs[0], g.ClientIDs[len(g.ClientIDs)-1], g.Scopes))
		}
		testkit.Diff(t, name+": grants", tc.want, got)
	}
}

func TestRealmsAreLimited(t *testing.T) {
	many := func(n int, change func(*migration.Client, string)) []migration.Client {
		clients := make([]migration.Client, n)
		for i := range clients {
			clients[i].ID = fmt.Sprintf("c-%d", i)
			change(&clients[i], clients[i].ID)
		}
		return clients
	}
	none := func(*migration.Client, string) {}
	scope := func(c *migration.Client, s string) { c.Scopes = []string{s} }
	audience := func(c *migration.Client, s string) { c.Audiences = []string{s} }
	anyID := target
	anyID.AnyClientID = true
	for name, tc := range map[string]struct {
		clients []migration.Client
		target  migration.Target
		want    error
	}{
		"as many client IDs as possible": {many(512, none), target, nil},
		"too many client IDs":            {many(513, none), target, migration.ErrTooMany},
		"any client ID":                  {many(513, none), anyID, nil},
		"as many scopes as possible":     {many(256, scope), target, nil},
		"too many scopes":                {many(257, scope), target, migration.ErrTooMany},
		"as many audiences as possible":  {many(16, audience), target, nil},
		"too many audiences":             {many(17, audience), target, migration.ErrTooMany},
		"no clients":                     {nil, target, migration.ErrTooMany},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := export(tc.clients...).Manifests(tc.target); !errors.Is(err, tc.want) {
				t.Errorf("got error %v, want %v", err, tc.want)
			}
		})
	}
	for _, invalid := range []migration.Target{{Realm: "Acme", Namespace: "a"}, {Realm: "acme", Namespace: "a.b"}, {Realm: "acme"}} {
		if _, err := export(migration.Client{ID: "a"}).Manifests(invalid); err == nil {
			t.Errorf("accepted the target %+v", invalid)
		}
	}
}

// Names of objects are stable and unique, even if an attacker chooses client IDs whose names collide.
func TestObjectNames(t *testing.T) {
	clients := []migration.Client{
		{ID: "a"},
		{ID: "A"},
		{ID: "a/"},
		{ID: "-a-"},
		{ID: "a.b-c"},
		{ID: "a..b"},
		{ID: "@@"},
		{ID: strings.Repeat("x", 63)},
		{ID: strings.Repeat("x", 64)},
		{ID: strings.Repeat("X", 255)},
		{ID: "realm"},
	}
	first := migrationtest.Manifests(t, export(clients...), target)
	for _, file := range []string{"apiclient-a.yaml", "apiclient-a.b-c.yaml", "apiclient-realm.yaml", "apiclient-a-559aead0.yaml", "apiclient-client-3330e5ba.yaml"} {
		if first[file] == "" {
			t.Errorf("there is no %s", file)
		}
	}
	// The attacker takes all names that "A" can have.
	hash := sha256.Sum256([]byte("A"))
	for digits := 8; digits <= 56; digits += 8 {
		id := "a-" + hex.EncodeToString(hash[:])[:digits]
		clients = append(clients, migration.Client{ID: id}, migration.Client{ID: strings.ToUpper(id)})
	}
	second := migrationtest.Manifests(t, export(clients...), target)
	changed := 0
	for file, content := range first {
		if second[file] != content && file != "realm.yaml" {
			changed++
			if file != "apiclient-a-559aead0.yaml" {
				t.Errorf("%s changed", file)
			}
		}
	}
	objects := 0
	for file := range second {
		if strings.HasPrefix(file, "apiclient-") {
			objects++
		}
	}
	if changed != 1 || objects != len(clients) {
		t.Errorf("%d files changed, and there are %d ApiClients", changed, objects)
	}
}

func TestClientsThatCannotMove(t *testing.T) {
	key := migration.PublicKey{ID: "k"}
	for name, tc := range map[string]struct {
		client migration.Client
		want   string // in the message
	}{
		"no ID":                {migration.Client{}, "no client ID"},
		"long ID":              {migration.Client{ID: strings.Repeat("x", 256)}, "255"},
		"colon in the ID":      {migration.Client{ID: "a:b"}, "colon"},
		"control in the ID":    {migration.Client{ID: "a\x1b[2J"}, "printable ASCII"},
		"asterisk in the ID":   {migration.Client{ID: "a*"}, "asterisk"},
		"reserved ID":          {migration.Client{ID: "wl/a", Hashes: []string{"1"}}, "begins with wl/, which is reserved"},
		"three secrets":        {migration.Client{ID: "a", Hashes: []string{"1", "2", "3"}}, "3 valid secrets"},
		"five keys":            {migration.Client{ID: "a", PublicKeys: []migration.PublicKey{key, key, key, key, key}}, "5 public keys"},
		"long lifetime":        {migration.Client{ID: "a", TokenLifetime: 24*time.Hour + 1}, "between 10s and 24h"},
		"quote in a scope":     {migration.Client{ID: "a", Scopes: []string{`a"`}}, "scope"},
		"fragment in audience": {migration.Client{ID: "a", Audiences: []string{"https://a#b"}}, "audience"},
		"17 audiences":         {migration.Client{ID: "a", Audiences: slices.Repeat([]string{"a"}, 17)}, "16 audiences"},
	} {
		t.Run(name, func(t *testing.T) {
			e := export(tc.client)
			if len(e.Clients) != 0 || len(e.NotImported) != 1 || !strings.Contains(e.NotImported[0].Message, tc.want) {
				t.Errorf("got %d clients and %+v, want a finding with %q", len(e.Clients), e.NotImported, tc.want)
			}
		})
	}
	e := &migration.Export{}
	if e.Add(migration.Client{ID: "a"}); len(e.NotImported) != 1 {
		t.Error("a client without a credential can move")
	}
}

func TestShortenedSettingsAreReported(t *testing.T) {
	e := export(migration.Client{ID: "a", Description: strings.Repeat("ä", 257), TokenLifetime: 90*time.Second + 1})
	if len(e.Clients) != 1 || len(e.Warnings) != 2 || e.Clients[0].TokenLifetime != 90*time.Second {
		t.Fatalf("got %+v", e)
	}
	migrationtest.Manifests(t, e, target)
}

func TestInputThatIsNotJSON(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want int
	}{
		"two arrays":       {"[1]\n[2]", 2},
		"byte order mark":  {"\xef\xbb\xbf[]\r\n", 1},
		"empty":            {"", 0},
		"truncated":        {`[{"secret":"hunter2"`, 0},
		"trailing garbage": {`[] hunter2`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := migration.Values([]byte(tc.file))
			if len(values) != tc.want || errors.Is(err, migration.ErrDamaged) != (tc.want == 0) {
				t.Errorf("got %d values and error %v, want %d", len(values), err, tc.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\x00") || err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error %q repeats the input", err)
			}
		})
	}
}

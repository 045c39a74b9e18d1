package registry_test

import (
	"crypto/rand"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	github   = "https://token.actions.githubusercontent.com"
	workflow = "repo:acme/shop:environment:production"
	account  = "system:serviceaccount:apps:billing"
)

// Unless a test says otherwise, the name of an issuer is its URL.
func lists(issuer, subject string) func(*registry.Client) { return listsOf(issuer, issuer, subject) }

func listsOf(issuerName, issuer, subject string) func(*registry.Client) {
	return func(c *registry.Client) {
		c.Identities = append(c.Identities, registry.Identity{IssuerName: issuerName, Issuer: issuer, Subject: subject})
	}
}

func listsAccount(c *registry.Client) {
	c.Identities = append(c.Identities, registry.Identity{Account: clientassertion.ServiceAccount{Namespace: "apps", Name: "billing", UID: "1"}})
}

// held returns the record of a subject of the realm r1.
func held(issuer, subject, clientID, clientUID string) *registry.Subject {
	return &registry.Subject{
		Record: "subject of " + issuer + " " + subject, RealmUID: "r1", IssuerName: issuer, Issuer: issuer, Subject: subject, ClientID: clientID, ClientUID: clientUID,
	}
}

// A subject has a holder only while its record and the client's record agree.
func TestHolder(t *testing.T) {
	deploy := client("c1", "r1", "deploy", lists(github, workflow), listsAccount)
	tests := map[string]struct {
		clients         []*registry.Client
		subjects        []*registry.Subject
		issuer, subject string
		want            string
	}{
		"held":                     {[]*registry.Client{deploy}, []*registry.Subject{held(github, workflow, "deploy", "c1")}, github, workflow, "c1"},
		"listed but not held":      {[]*registry.Client{deploy}, nil, github, workflow, ""},
		"held but not listed":      {[]*registry.Client{client("c1", "r1", "deploy")}, []*registry.Subject{held(github, workflow, "deploy", "c1")}, github, workflow, ""},
		"account not listed":       {[]*registry.Client{client("c1", "r1", "deploy")}, []*registry.Subject{held("kubernetes", account, "deploy", "c1")}, "kubernetes", account, ""},
		"holder has no record":     {nil, []*registry.Subject{held(github, workflow, "deploy", "c1")}, github, workflow, ""},
		"client ID changed hands":  {[]*registry.Client{client("c2", "r1", "deploy", lists(github, workflow))}, []*registry.Subject{held(github, workflow, "deploy", "c1")}, github, workflow, ""},
		"listed for other issuer":  {[]*registry.Client{client("c1", "r1", "deploy", lists("https://gitlab.com", workflow))}, []*registry.Subject{held(github, workflow, "deploy", "c1")}, github, workflow, ""},
		"listed for another name":  {[]*registry.Client{client("c1", "r1", "deploy", listsOf("other", github, workflow))}, []*registry.Subject{held(github, workflow, "deploy", "c1")}, github, workflow, ""},
		"account, foreign cluster": {[]*registry.Client{deploy}, []*registry.Subject{held("kubernetes", account, "deploy", "c1")}, "https://kubernetes.default.svc", account, ""},
		"second client lists it too": {
			[]*registry.Client{deploy, client("c2", "r1", "attacker", lists(github, workflow))},
			[]*registry.Subject{held(github, workflow, "deploy", "c1")},
			github, workflow, "c1",
		},
		"client of another realm": {[]*registry.Client{client("c1", "r2", "deploy", lists(github, workflow))}, []*registry.Subject{held(github, workflow, "deploy", "c1")}, github, workflow, ""},
		"separated differently":   {[]*registry.Client{client("c1", "r1", "deploy", lists("https://a.example/x", "y"))}, []*registry.Subject{held("https://a.example/x", "y", "deploy", "c1")}, "https://a.example", "/xy", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reg := registry.New()
			reg.Replace([]*registry.Realm{realm(t, "r1", "acme"), realm(t, "r2", "globex")}, tc.clients, tc.subjects, nil, keepNone)
			testkit.Diff(t, "holder", tc.want, holderOf(reg, tc.issuer, tc.subject))
		})
	}
}

func holderOf(reg *registry.Registry, issuer, subject string) string {
	if c := reg.Realm("acme").Holder(issuer, issuer, subject); c != nil {
		return c.UID
	}
	return ""
}

// Records of subjects come and go like those of clients.
func TestSubjectChanges(t *testing.T) {
	reg := registry.New()
	first, second := client("c1", "r1", "first", lists(github, workflow)), client("c2", "r1", "second", lists(github, workflow))
	reg.SetSubject(held(github, workflow, "first", "c1"))
	reg.SetClient(first)
	reg.SetClient(second)
	reg.SetRealm(realm(t, "r1", "acme")) // records can arrive in any order
	check := func(step, want string) {
		t.Helper()
		testkit.Diff(t, step+": holder", want, holderOf(reg, github, workflow))
	}
	check("initially", "c1")
	reg.SetSubject(held(github, workflow, "second", "c2"))
	check("after another client acquired it", "c2")
	reg.Remove(held(github, workflow, "", "").Record)
	check("after removal", "")
	reg.SetSubject(held(github, workflow, "first", "c1"))
	realms, clients := []*registry.Realm{realm(t, "r1", "acme")}, []*registry.Client{first}
	reg.Replace(realms, clients, nil, nil, func(record string) bool { return record == held(github, workflow, "", "").Record })
	check("while the record is unreadable", "c1")
	reg.Replace(realms, clients, nil, nil, keepNone)
	check("after a list without it", "")
	if realms, clients := reg.Size(); realms != 1 || clients != 1 {
		t.Errorf("Size() = %d realms and %d clients, want 1 and 1", realms, clients)
	}
}

// A token is verified with the keys of its kid and algorithm only, and with a limited number.
func TestKeysOf(t *testing.T) {
	var keys []signingkey.PublicKey
	for _, id := range []string{"a", "b", "b", "b"} {
		generated := testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
		generated.ID = id
		keys = append(keys, generated.Public())
	}
	r := realm(t, "r1", "acme", func(s *registry.RealmSettings) {
		s.Issuers = []registry.Issuer{{Name: "github", Issuer: github, Keys: keys}, {Name: "other", Issuer: "https://other.example"}}
	})
	tests := map[string]struct {
		id        string
		algorithm signingkey.Algorithm
		want      int
		wantKnown bool
	}{
		"one key":           {"a", signingkey.ES256, 1, true},
		"more than allowed": {"b", signingkey.ES256, 2, true},
		"other algorithm":   {"a", signingkey.RS256, 0, true},
		"unknown":           {"c", signingkey.ES256, 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, known := r.TrustedIssuer(github, nil).KeysOf(tc.id, tc.algorithm)
			if len(got) != tc.want || known != tc.wantKnown {
				t.Errorf("got %d keys, known %t, want %d, %t", len(got), known, tc.want, tc.wantKnown)
			}
		})
	}
	if r.TrustedIssuer("https://other.example", nil).Name != "other" || r.TrustedIssuer(github+"/", nil) != nil || r.TrustedIssuer("", nil) != nil {
		t.Error("found another issuer")
	}
}

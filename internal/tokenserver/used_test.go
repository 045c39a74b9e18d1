package tokenserver_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// usedCredentials collects the uses that a server records, as client, type, and ID.
type usedCredentials struct {
	mu   sync.Mutex
	list []string
}

func (u *usedCredentials) record(o *tokenserver.Options) {
	o.RecordUse = func(client *registry.Client, credential usage.Credential, at time.Time) {
		u.mu.Lock()
		defer u.mu.Unlock()
		entry := client.ID + " " + string(credential.Type) + "/" + credential.ID
		if !at.Equal(now) {
			entry += " at " + at.String()
		}
		u.list = append(u.list, entry)
	}
}

// take returns the uses since the last call.
func (u *usedCredentials) take() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.list
	u.list = nil
	slices.Sort(taken)
	return taken
}

// Every credential that authenticates a client counts as used, and no other.
func TestUsedCredentials(t *testing.T) {
	var used usedCredentials
	s := startFederated(t, used.record)
	add := func(id string, change func(*registry.Client)) {
		s.registry.SetClient(newClient(t, "acme", id, func(c *registry.Client) {
			c.Secrets = append(credentials(t, expiringSecret, now.Add(time.Second)), c.Secrets...)
			c.Secrets[0].ID, c.Secrets[1].ID = "old", "new"
			c.Identities = []registry.Identity{
				{ID: "other", IssuerName: "github", Issuer: github, Subject: "repo:acme/other:ref:refs/heads/main"},
				{ID: "subject", IssuerName: "github", Issuer: github, Subject: workflow},
				{ID: "claims", IssuerName: "github", Issuer: github, Claims: map[string]string{"repository": "acme/shop"}},
			}
			change(c)
		}))
	}
	add("user", func(*registry.Client) {})
	add("stopped", func(c *registry.Client) { c.Disabled = true })
	key := keys()[signingkey.ES256]
	own := assertion(t, signingkey.ES256, nil, nil)
	github := githubToken(t, nil, nil)
	bySecret := request{body: grant, authorization: basic("user", secret)}
	for _, tc := range []struct {
		name    string
		request request
		want    []string
		status  int // defaults to 200
	}{
		{name: "active secret", request: bySecret, want: []string{"user secret/new"}},
		{name: "signed assertion", request: byAssertion(own, ""), want: []string{"signing publicKey/" + key.ID}},
		{name: "replayed assertion", request: byAssertion(own, ""), status: 401},
		{name: "service account", request: byAssertion(accountToken(t, nil, nil), ""), want: []string{"pod identity/billing"}},
		{name: "two identities", request: byAssertion(github, "&client_id=user"), want: []string{"user identity/claims", "user identity/subject"}},
		{
			name: "grant and secret", request: request{body: byGrant(github, "").body, authorization: bySecret.authorization},
			want: []string{"user identity/claims", "user identity/subject", "user secret/new"},
		},
		// The client has authenticated, although its grant is invalid.
		{name: "wrong secret", request: request{body: grant, authorization: basic("user", canary)}, status: 401},
	} {
		got := s.send(t, s.direct(), tc.request)
		expectStatus(t, tc.name, max(200, tc.status), got)
		testkit.Diff(t, tc.name+": used credentials", tc.want, used.take())
	}
}

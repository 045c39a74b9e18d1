package record_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

func goodExchange() record.Exchange {
	return record.Exchange{
		Name:             "orders",
		Actors:           record.ClientSelector{Namespaces: []string{"agents"}, ClientIDs: []string{"agent"}},
		Subjects:         &record.ClientSelector{Labels: "0123"},
		SubjectAudiences: []string{"https://agents.example.com"}, SubjectScopes: []string{"agents.call"},
		Audiences: []string{"https://orders.example.com"}, Scopes: []string{"orders.read"}, MaxDepth: 2,
		DPoP: true, TokenLifetimeSeconds: 300, DeniedSubjects: []string{"mallory"},
	}
}

func goodIssuerExchange() record.Exchange {
	e := goodExchange()
	e.Name, e.Subjects, e.SubjectAudiences, e.SubjectScopes = "corporate", nil, nil, nil
	e.Actors = record.ClientSelector{All: true}
	e.Issuer, e.Claims = "corporate", map[string]string{"azp": "portal", "tenant": "acme"}
	return e
}

// A token that was issued by a rule is rejected as soon as any matcher of the rule changes. Members that are
// checked for each token, or that affect only new tokens, don't change the digest.
func TestDigestOfExchange(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*record.Exchange)
		same   bool
	}{
		"nothing":           {change: func(*record.Exchange) {}, same: true},
		"DPoP":              {change: func(e *record.Exchange) { e.DPoP = false }, same: true},
		"lifetime":          {change: func(e *record.Exchange) { e.TokenLifetimeSeconds = 60 }, same: true},
		"denied subjects":   {change: func(e *record.Exchange) { e.DeniedSubjects = nil }, same: true},
		"name":              {change: func(e *record.Exchange) { e.Name = "other" }},
		"namespaces":        {change: func(e *record.Exchange) { e.Actors.Namespaces = []string{"agents", "b"} }},
		"all namespaces":    {change: func(e *record.Exchange) { e.Actors = record.ClientSelector{All: true} }},
		"client IDs":        {change: func(e *record.Exchange) { e.Actors.ClientIDs = nil }},
		"labels":            {change: func(e *record.Exchange) { e.Subjects = &record.ClientSelector{Labels: "4567"} }},
		"subject client":    {change: func(e *record.Exchange) { e.Subjects.ClientIDs = []string{"portal"} }},
		"subject audiences": {change: func(e *record.Exchange) { e.SubjectAudiences = []string{"https://b.example.com"} }},
		"subject scopes":    {change: func(e *record.Exchange) { e.SubjectScopes = nil }},
		"audiences":         {change: func(e *record.Exchange) { e.Audiences = nil }},
		"scopes":            {change: func(e *record.Exchange) { e.Scopes = []string{"orders.read", "orders.write"} }},
		"depth":             {change: func(e *record.Exchange) { e.MaxDepth = 1 }},
		"issuer":            {change: func(e *record.Exchange) { e.Issuer = "other" }},
		"claims":            {change: func(e *record.Exchange) { e.Claims = map[string]string{"azp": "other"} }},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := goodExchange(), goodExchange()
			tc.change(&after)
			if same := before.Digest() == after.Digest(); same != tc.same {
				t.Errorf("the digest is the same: %t", same)
			}
		})
	}
	// Tokens outlive the process that signed them, and the version of the token server.
	testkit.Diff(t, "digest", "G2tLx1omcnFYAOQ7", (&record.Exchange{Name: "a", Actors: record.ClientSelector{All: true}, Issuer: "b", Claims: map[string]string{"d": "e", "c": "f"}, MaxDepth: 1}).Digest())
}

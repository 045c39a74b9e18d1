package delegation_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
)

const orders, tools = "https://orders.example", "https://tools.example"

// ofClients is a rule with which the clients in the namespace agents act for those in apps.
func ofClients() delegation.Rule {
	return delegation.Rule{
		Name: "orders", Actors: delegation.Clients{Namespaces: []string{"agents"}}, Subjects: &delegation.Clients{Namespaces: []string{"apps"}},
		SubjectAudiences: []string{tools}, Audiences: []string{orders}, Scopes: []string{"read", "write"}, MaxDepth: 1,
	}
}

// ofIssuer is a rule for subject tokens of an issuer.
func ofIssuer() delegation.Rule {
	return delegation.Rule{
		Name: "corporate", Actors: delegation.Clients{All: true}, Issuer: "corporate", Claims: map[string]string{"azp": "portal"},
		Audiences: []string{orders}, Scopes: []string{"read", "write"}, MaxDepth: 1,
	}
}

func client(namespace, id string) delegation.Client {
	return delegation.Client{ID: id, Namespace: namespace, Audiences: []string{orders, tools}, Scopes: []string{"read"}, DelegatedScopes: []string{"write"}}
}

// ownToken returns an access token of a client.
func ownToken(c delegation.Client) *delegation.Subject {
	return &delegation.Subject{Clients: []delegation.Client{c}, Client: &c, Audience: []string{tools}, Scope: []string{"read"}}
}

func foreign() *delegation.Subject {
	claims := map[string]string{"azp": "portal"}
	return &delegation.Subject{Foreign: &delegation.Foreign{Issuer: "corporate", HasClaims: func(want map[string]string) bool { return maps.Equal(want, claims) }}}
}

var errNarrow = errors.New("malformed")

// Each case changes an exchange that a rule allows.
func TestDecide(t *testing.T) {
	type exchange struct {
		rules    []delegation.Rule
		actor    delegation.Client
		subject  *delegation.Subject
		audience string
		narrow   func([]string) ([]string, error)
	}
	all := func(allowed []string) ([]string, error) { return allowed, nil }
	ofAgent := func(e *exchange) { e.subject = ownToken(client("apps", "agent")) }
	byIssuer := func(e *exchange) { e.rules, e.subject = []delegation.Rule{ofIssuer()}, foreign() }
	for name, test := range map[string]struct {
		change func(*exchange)
		want   []string // scopes; empty if not allowed
		bound  bool
		err    error
		reason string
	}{
		"token of a client":  {want: []string{"read"}},
		"token of the actor": {change: ofAgent, err: delegation.ErrOwnToken},
		"actor is the subject": {change: func(e *exchange) {
			ofAgent(e)
			e.subject.Clients = []delegation.Client{client("apps", "other"), client("apps", "agent")}
		}, err: delegation.ErrNotAllowed, reason: "the subject is the client itself"},
		"another actor":   {change: func(e *exchange) { e.actor.Namespace = "other" }, err: delegation.ErrNotAllowed, reason: `rule "orders": it does not select the client`},
		"too many actors": {change: func(e *exchange) { e.subject.Depth = 1 }, err: delegation.ErrNotAllowed, reason: "too deep"},
		"another client in token": {change: func(e *exchange) {
			e.subject.Clients = append([]delegation.Client{client("other", "b")}, e.subject.Clients...)
		}, err: delegation.ErrNotAllowed, reason: "every client"},
		"token for another API":  {change: func(e *exchange) { e.subject.Audience = []string{orders} }, err: delegation.ErrNotAllowed, reason: "none of its audiences"},
		"without required scope": {change: func(e *exchange) { e.rules[0].SubjectScopes = []string{"act"} }, err: delegation.ErrNotAllowed, reason: "lacks one of its scopes"},
		"with required scope": {change: func(e *exchange) {
			e.rules[0].SubjectScopes, e.subject.Scope = []string{"act"}, []string{"act"}
		}, want: []string{"read"}},
		"with required scope, external": {change: func(e *exchange) {
			e.rules[0].SubjectScopes, e.subject.Scope, e.subject.Client = []string{"act"}, []string{"act"}, nil
		}, want: []string{"read", "write"}},
		"audience of no rule":       {change: func(e *exchange) { e.audience = tools }, err: delegation.ErrAudience},
		"audience that actor lacks": {change: func(e *exchange) { e.actor.Audiences = []string{tools} }, err: delegation.ErrAudience},
		"no scope":                  {change: func(e *exchange) { e.actor.Scopes = nil }, err: delegation.ErrScope},
		"malformed scope":           {change: func(e *exchange) { e.narrow = func([]string) ([]string, error) { return nil, errNarrow } }, err: errNarrow},
		"scope, then no audience": {change: func(e *exchange) {
			e.actor.Scopes = nil
			e.rules = append(e.rules, ofClients())
			e.rules[1].Audiences = nil
		}, err: delegation.ErrScope},
		"no audience, then no scope": {change: func(e *exchange) {
			e.actor.Scopes = nil
			e.rules = append(e.rules, ofClients())
			e.rules[0].Audiences = nil
		}, err: delegation.ErrScope},
		"the second rule":          {change: func(e *exchange) { e.rules = append([]delegation.Rule{ofIssuer()}, e.rules...) }, want: []string{"read"}},
		"actor that requires DPoP": {change: func(e *exchange) { e.actor.DPoP = true }, want: []string{"read"}, bound: true},
		"bound token":              {change: func(e *exchange) { e.subject.Bound = true }, want: []string{"read"}, bound: true},
		"another rule with DPoP":   {change: func(e *exchange) { e.rules = append(e.rules, ofClients()); e.rules[1].DPoP = true }, want: []string{"read"}, bound: true},
		"DPoP for other scopes": {change: func(e *exchange) {
			e.rules = append(e.rules, ofClients())
			e.rules[1].DPoP, e.rules[1].Scopes = true, []string{"write"}
		}, want: []string{"read"}},
		"DPoP for other actors": {change: func(e *exchange) {
			e.rules = append(e.rules, ofClients())
			e.rules[1].DPoP, e.rules[1].Actors = true, delegation.Clients{Namespaces: []string{"other"}}
		}, want: []string{"read"}},
		"token of an issuer":            {change: byIssuer, want: []string{"read", "write"}},
		"token of another issuer":       {change: func(e *exchange) { byIssuer(e); e.subject.Foreign.Issuer = "other" }, err: delegation.ErrNotAllowed, reason: "another kind"},
		"token of a client, for issuer": {change: func(e *exchange) { e.subject = foreign() }, err: delegation.ErrNotAllowed, reason: "another kind"},
		"other claims":                  {change: func(e *exchange) { byIssuer(e); e.rules[0].Claims = nil }, err: delegation.ErrNotAllowed, reason: "lacks a claim"},
		"ID-JAG for subject tokens":     {change: func(e *exchange) { byIssuer(e); e.subject.Foreign.IDJAG = true }, err: delegation.ErrNotAllowed, reason: "another kind"},
		"ID-JAG": {change: func(e *exchange) {
			byIssuer(e)
			e.rules[0].IDJAG, e.subject.Foreign.IDJAG, e.subject.Depth = true, true, 1 // Its client is no further actor.
			e.subject.Foreign.Scope, e.subject.Foreign.ScopeLimited = []string{"write"}, true
		}, want: []string{"write"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &exchange{rules: []delegation.Rule{ofClients()}, actor: client("agents", "agent"), subject: ownToken(client("apps", "app")), audience: orders, narrow: all}
			if test.change != nil {
				test.change(e)
			}
			got, err := delegation.Decide(e.rules, &e.actor, e.subject, e.audience, e.narrow)
			if !errors.Is(err, test.err) || test.reason != "" && !strings.Contains(err.Error(), test.reason) {
				t.Fatalf("Error %v, want %v and %q", err, test.err, test.reason)
			}
			testkit.Diff(t, "Scopes", test.want, got.Scopes)
			testkit.Diff(t, "Bound", test.bound, got.Bound)
		})
	}
}

// A rule denies its subjects for the audiences that it and the allowing rule have in common.
func TestDenies(t *testing.T) {
	denying, allowing := ofIssuer(), ofClients()
	denying.DeniedSubjects, denying.Audiences = []string{"app"}, []string{orders, tools}
	for name, test := range map[string]struct {
		subject   string
		audiences []string
		want      bool
	}{
		"denied":                            {"app", []string{orders}, true},
		"another subject":                   {"other", []string{orders}, false},
		"audience that isn't allowed":       {"app", []string{tools}, false},
		"one of the audiences":              {"app", []string{tools, orders}, true},
		"no audience in common with either": {"app", []string{"https://other.example"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "denied", test.want, denying.Denies(test.subject, &allowing, test.audiences))
		})
	}
}

// Token servers select and deny for every token that they verify.
func TestVerificationAllocatesNothing(t *testing.T) {
	denying, allowing, agent, audiences := ofIssuer(), ofClients(), client("agents", "agent"), []string{orders}
	denying.DeniedSubjects = []string{"app"}
	if n := testing.AllocsPerRun(10, func() {
		if !allowing.Actors.Select(agent.ID, agent.Namespace, agent.Selectors) || !denying.Denies("app", &allowing, audiences) {
			t.Error("The rules select no actor, or deny nothing")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A client that is the only one in a rule can't use it for itself.
func TestSelectOnly(t *testing.T) {
	for name, test := range map[string]struct {
		ids  []string
		want bool
	}{
		"any client": {}, "this one": {[]string{"a"}, true}, "this and another one": {[]string{"a", "b"}, false}, "another one": {[]string{"b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "only", test.want, (&delegation.Clients{All: true, ClientIDs: slices.Clone(test.ids)}).SelectOnly("a"))
		})
	}
}

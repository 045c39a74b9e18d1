package exchange

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// Request is what a client asks for.
type Request struct {
	Audience string // exactly one
	Scope    string // scope tokens, separated by single spaces; if empty, all that are allowed
}

// Result is what the new token contains.
type Result struct {
	Rule       string // its name
	Delegation *token.Delegation
	Scopes     []string
	// Lifetime is the maximum lifetime of the token; zero if neither the rule nor the subject limits it.
	Lifetime time.Duration
	// Bound means that the token must be bound to a key of the client.
	Bound bool
}

// Decide returns what the actor, an authenticated client of the realm, gets for a subject; see delegation.Decide. No
// rule must deny the subject.
//
// Errors: delegation.ErrNotAllowed, wrapping delegation.ErrOwnToken if the token was issued to the actor;
// oauth.ErrInvalidTarget and oauth.ErrInvalidScope if a rule allows the actor to act for the subject, but not for this
// audience or with these scopes.
func Decide(realm *registry.Realm, actor *registry.Client, s *Subject, want Request, now time.Time) (Result, error) {
	if !s.mayAct(realm, actor) {
		return Result{}, fmt.Errorf("%w: %w", delegation.ErrNotAllowed, errMayAct)
	}
	decided, err := delegation.Decide(realm.Rules(), new(actor.Party()), &s.Subject, want.Audience, func(allowed []string) ([]string, error) {
		return oauth.NarrowScope(want.Scope, allowed)
	})
	switch {
	case errors.Is(err, delegation.ErrAudience):
		return Result{}, oauth.ErrInvalidTarget.Refusing(want.Audience)
	case errors.Is(err, delegation.ErrScope):
		return Result{}, oauth.ErrInvalidScope
	case err != nil:
		return Result{}, err
	}
	d := stated(realm, decided.Rule, actor, s)
	if denying := realm.Denies(d, append([]*registry.Client{actor}, s.clients...), []string{want.Audience}); denying != "" {
		return Result{}, fmt.Errorf("%w: rule %q: %w", delegation.ErrNotAllowed, denying, errDenied)
	}
	return Result{Rule: decided.Rule.Name, Delegation: d, Scopes: decided.Scopes, Lifetime: lifetime(decided.Rule, s, now), Bound: decided.Bound}, nil
}

var (
	errMayAct = errors.New("may_act of the token names another actor")
	errDenied = errors.New("it denies the subject")
)

// mayAct reports whether the token lets the actor act for its subject. All members of may_act together identify one
// party.
func (s *Subject) mayAct(realm *registry.Realm, actor *registry.Client) bool {
	m := s.MayAct
	if m == nil {
		return true
	}
	named := m.ClientID != "" || m.Issuer != "" && m.Subject != ""
	return named && slices.Contains([]string{"", actor.ID}, m.ClientID) && slices.Contains([]string{"", actor.ID}, m.Subject) &&
		slices.Contains([]string{"", realm.Issuer}, m.Issuer)
}

// stated returns what the new token states.
func stated(realm *registry.Realm, rule *delegation.Rule, actor *registry.Client, s *Subject) *token.Delegation {
	latest := token.Rule{Name: rule.Name, Digest: rule.Digest, IssuedAt: s.IssuedAt}
	d := &token.Delegation{Subject: s.ID, SubjectID: s.External, Act: s.Act, Rules: slices.Concat([]token.Rule{latest}, s.Rules)}
	if s.Client != nil {
		d.SubjectUID = s.clients[len(s.clients)-1].Identity
	}
	if s.Foreign == nil || !s.Foreign.IDJAG {
		d.Act = &token.Actor{Issuer: realm.Issuer, Subject: actor.ID, ClientUID: actor.Identity, Act: s.Act}
	}
	return d
}

// lifetime returns the longest lifetime that the rule and the token of the subject allow; zero if they don't
// limit it. Times in tokens are whole seconds.
func lifetime(rule *delegation.Rule, s *Subject, now time.Time) time.Duration {
	longest := rule.TokenLifetime
	if s.ExpiresAt.IsZero() {
		return longest
	}
	remaining := time.Duration(s.ExpiresAt.Unix()-now.Unix()) * time.Second
	if longest == 0 {
		return remaining
	}
	return min(longest, remaining)
}

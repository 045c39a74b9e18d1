package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// ErrNotAllowed means that no rule of the realm lets the client act for the subject. It wraps the reasons for
// the log.
var ErrNotAllowed = errors.New("no rule allows the exchange")

// ErrOwnToken means that the token was issued to the client that wants to exchange it.
var ErrOwnToken = errors.New("the token was issued to the client itself")

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

// Decide returns what the actor, an authenticated client of the realm, gets for a subject. One rule must
// allow everything that is requested; the first one applies. The others can only restrict it: none must deny
// the subject, and if any that covers it requires DPoP, the new token must be bound.
//
// Errors: ErrNotAllowed, wrapping ErrOwnToken if the token was issued to the actor; oauth.ErrInvalidTarget and
// oauth.ErrInvalidScope if a rule allows the actor to act for the subject, but not for this audience or with
// these scopes.
func Decide(realm *registry.Realm, actor *registry.Client, s *Subject, want Request, now time.Time) (Result, error) {
	if err := s.accepts(realm, actor); err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	reasons, problem := []error{ErrNotAllowed}, error(nil)
	for i := range realm.Exchanges() {
		rule := &realm.Exchanges()[i]
		if err := covers(rule, actor, s); err != nil {
			reasons = append(reasons, fmt.Errorf("rule %q: %w", rule.Name, err))
			continue
		}
		if !slices.Contains(rule.Audiences, want.Audience) || !slices.Contains(actor.Audiences, want.Audience) {
			if problem == nil {
				problem = oauth.ErrInvalidTarget.Refusing(want.Audience)
			}
			continue
		}
		scopes, err := oauth.NarrowScope(want.Scope, allowedScopes(rule, actor, s))
		if err != nil || len(scopes) == 0 {
			problem = cmp.Or(err, error(oauth.ErrInvalidScope))
			continue
		}
		d := delegation(realm, rule, actor, s)
		if denying := realm.Denies(d, append([]*registry.Client{actor}, s.Clients...), []string{want.Audience}); denying != "" {
			return Result{}, fmt.Errorf("%w: rule %q: %w", ErrNotAllowed, denying, errDenied)
		}
		return Result{
			Rule: rule.Name, Delegation: d, Scopes: scopes,
			Lifetime: lifetime(rule, s, now), Bound: bound(realm, actor, s, want.Audience, scopes),
		}, nil
	}
	if problem != nil {
		return Result{}, problem
	}
	return Result{}, errors.Join(reasons...)
}

// These are the reasons why a rule doesn't cover or denies an exchange.
var (
	errSelf     = errors.New("the subject is the client itself")
	errMayAct   = errors.New("may_act of the token names another actor")
	errActor    = errors.New("it does not select the client as an actor")
	errKind     = errors.New("it is for tokens of another kind or issuer")
	errClaims   = errors.New("the token lacks a claim of the rule")
	errSubject  = errors.New("it does not select every client in the token")
	errAudience = errors.New("the token has none of its audiences")
	errScopes   = errors.New("the token lacks one of its scopes")
	errDepth    = errors.New("the chain of actors would be too deep")
	errDenied   = errors.New("it denies the subject")
)

// accepts checks what no rule can allow. With its own token, a client would combine two rules: the one that
// allowed this token, and another one. A client needs no exchange to act for itself; a chain that ends where it
// began would look like its own token.
func (s *Subject) accepts(realm *registry.Realm, actor *registry.Client) error {
	switch {
	case len(s.Clients) > 0 && s.Clients[0].UID == actor.UID:
		return ErrOwnToken
	case s.Client != nil && s.Client.UID == actor.UID:
		return errSelf
	}
	if m := s.MayAct; m != nil {
		// All members together identify one party.
		named := m.ClientID != "" || m.Issuer != "" && m.Subject != ""
		if !named || !slices.Contains([]string{"", actor.ID}, m.ClientID) || !slices.Contains([]string{"", actor.ID}, m.Subject) ||
			!slices.Contains([]string{"", realm.Issuer}, m.Issuer) {
			return errMayAct
		}
	}
	return nil
}

// covers returns why a rule doesn't let the actor act for the subject, or nil.
func covers(rule *registry.Exchange, actor *registry.Client, s *Subject) error {
	depth := s.Act.Depth()
	if s.Foreign == nil || !s.Foreign.IDJAG {
		depth++
	}
	switch {
	case !actor.Selected(&rule.Actors):
		return errActor
	case depth > rule.MaxDepth:
		return errDepth
	case (s.Foreign == nil) != (rule.Subjects != nil):
		return errKind
	case s.Foreign != nil:
		return coversForeign(rule, s.Foreign)
	}
	return coversToken(rule, s)
}

// coversForeign returns why a rule isn't for a token of an issuer, or nil.
func coversForeign(rule *registry.Exchange, f *Foreign) error {
	switch {
	case rule.Issuer != f.Issuer.Name || rule.IDJAG != f.IDJAG:
		return errKind
	case !f.HasClaims(rule.Claims):
		return errClaims
	}
	return nil
}

// coversToken returns why a rule isn't for an access token of the realm, or nil.
func coversToken(rule *registry.Exchange, s *Subject) error {
	switch {
	case slices.ContainsFunc(s.Clients, func(c *registry.Client) bool { return !c.Selected(rule.Subjects) }):
		return errSubject
	case !slices.ContainsFunc(s.Audience, func(a string) bool { return slices.Contains(rule.SubjectAudiences, a) }):
		return errAudience
	case slices.ContainsFunc(rule.SubjectScopes, func(scope string) bool { return !slices.Contains(s.Scope, scope) }):
		return errScopes
	}
	return nil
}

// allowedScopes returns the scopes that a rule and the actor allow for the subject, in the order of the rule.
func allowedScopes(rule *registry.Exchange, actor *registry.Client, s *Subject) []string {
	return slices.DeleteFunc(slices.Clone(rule.Scopes), func(scope string) bool {
		if !slices.Contains(actor.Scopes, scope) && !slices.Contains(actor.DelegatedScopes, scope) {
			return true
		}
		switch {
		case s.Foreign != nil:
			return s.Foreign.ScopeLimited && !slices.Contains(s.Foreign.Scope, scope)
		case len(rule.SubjectScopes) == 0:
			return !slices.Contains(s.Scope, scope)
		}
		// The token has what the rule requires. A client can't be acted for with more than it has itself.
		return s.Client != nil && !slices.Contains(s.Client.Scopes, scope)
	})
}

// delegation returns what the new token states.
func delegation(realm *registry.Realm, rule *registry.Exchange, actor *registry.Client, s *Subject) *token.Delegation {
	latest := rule.Reference
	latest.IssuedAt = s.IssuedAt
	d := &token.Delegation{Subject: s.ID, SubjectID: s.External, Act: s.Act, Rules: slices.Concat([]token.Rule{latest}, s.Rules)}
	if s.Client != nil {
		d.SubjectUID = s.Client.Identity
	}
	if s.Foreign == nil || !s.Foreign.IDJAG {
		d.Act = &token.Actor{Issuer: realm.Issuer, Subject: actor.ID, ClientUID: actor.Identity, Act: s.Act}
	}
	return d
}

// lifetime returns the longest lifetime that the rule and the token of the subject allow; zero if they don't
// limit it. Times in tokens are whole seconds.
func lifetime(rule *registry.Exchange, s *Subject, now time.Time) time.Duration {
	longest := time.Duration(rule.TokenLifetimeSeconds) * time.Second
	if s.ExpiresAt.IsZero() {
		return longest
	}
	remaining := time.Duration(s.ExpiresAt.Unix()-now.Unix()) * time.Second
	if longest == 0 {
		return remaining
	}
	return min(longest, remaining)
}

// bound reports whether the new token must be bound to a key of the actor. A binding is never removed, and the
// token of a client that requires one is valid only with it. As with grants, any rule that covers the exchange
// and has one of the scopes requires it, whichever rule applies.
func bound(realm *registry.Realm, actor *registry.Client, s *Subject, audience string, scopes []string) bool {
	if actor.DPoP || s.Bound {
		return true
	}
	for i := range realm.Exchanges() {
		rule := &realm.Exchanges()[i]
		if rule.DPoP && covers(rule, actor, s) == nil && slices.Contains(rule.Audiences, audience) &&
			slices.ContainsFunc(scopes, func(scope string) bool { return slices.Contains(rule.Scopes, scope) }) {
			return true
		}
	}
	return false
}

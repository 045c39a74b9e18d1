package delegation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNotAllowed means that no rule of the realm lets the client act for the subject. It wraps the reasons for
// the log.
var ErrNotAllowed = errors.New("no rule allows the exchange")

// ErrOwnToken means that the token was issued to the client that wants to exchange it.
var ErrOwnToken = errors.New("the token was issued to the client itself")

// Errors of a client that a rule lets act for the subject.
var (
	ErrAudience = errors.New("no rule allows the audience")
	ErrScope    = errors.New("no rule allows a scope")
)

// These are the reasons why a rule doesn't cover an exchange.
var (
	errSelf     = errors.New("the subject is the client itself")
	errActor    = errors.New("it does not select the client as an actor")
	errKind     = errors.New("it is for tokens of another kind or issuer")
	errClaims   = errors.New("the token lacks a claim of the rule")
	errSubject  = errors.New("it does not select every client in the token")
	errAudience = errors.New("the token has none of its audiences")
	errScopes   = errors.New("the token lacks one of its scopes")
	errDepth    = errors.New("the chain of actors would be too deep")
)

// Client is what of a client of the realm matters to rules.
type Client struct {
	ID, Namespace string
	// Selectors identify the selectors that match the labels of the namespace; see Clients.Labels.
	Selectors []string
	// Audiences and Scopes are those of its own tokens. DelegatedScopes are further ones of tokens that act for
	// another subject.
	Audiences, Scopes, DelegatedScopes []string
	DPoP                               bool // every token is bound to a key
}

// Subject is a valid token that a client presents to act for its subject.
type Subject struct {
	// Client is the subject; nil for an external one.
	Client *Client
	// Clients are the clients of the realm in the token: the one to which it was issued, the earlier actors,
	// and last the subject, which can be the first, too. It is empty for the tokens of issuers.
	Clients []Client
	// Depth is the number of actors in the token.
	Depth int
	// Audience and Scope are those of an access token of the realm.
	Audience, Scope []string
	// Foreign is set for the tokens of issuers.
	Foreign *Foreign
	// Bound means that the token is bound to a key.
	Bound bool
}

// Foreign is a token of a trusted issuer.
type Foreign struct {
	Issuer string // its name
	// HasClaims reports whether the token has the claims of a rule.
	HasClaims func(map[string]string) bool
	// IDJAG means that the token is an ID-JAG. Its client is then no actor.
	IDJAG bool
	// Scope limits the scopes of new tokens if ScopeLimited is true.
	Scope        []string
	ScopeLimited bool
}

// Decision is what an actor gets for a subject.
type Decision struct {
	Rule   *Rule
	Scopes []string
	// Bound means that the new token must be bound to a key of the actor.
	Bound bool
}

// Decide returns what an actor gets for a subject and an audience. One rule must allow everything that is
// requested; the first one applies. The others can only restrict it: if any that covers it requires DPoP, the new
// token must be bound, and none may deny the subject, for which the caller asks Denies. narrow returns those of the
// allowed scopes that are requested.
//
// Errors: ErrNotAllowed, wrapping ErrOwnToken if the token was issued to the actor; ErrAudience, ErrScope, and
// those of narrow if a rule allows the actor to act for the subject, but not for this audience or with
// these scopes.
func Decide(rules []Rule, actor *Client, s *Subject, audience string, narrow func(allowed []string) ([]string, error)) (Decision, error) {
	if err := s.accepts(actor); err != nil {
		return Decision{}, fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	reasons, problem := []error{ErrNotAllowed}, error(nil)
	for i := range rules {
		rule := &rules[i]
		if err := rule.covers(actor, s); err != nil {
			reasons = append(reasons, fmt.Errorf("rule %q: %w", rule.Name, err))
			continue
		}
		if !slices.Contains(rule.AudiencesFor(actor), audience) {
			problem = cmp.Or(problem, ErrAudience)
			continue
		}
		scopes, err := narrow(rule.scopes(actor, s))
		if err != nil || len(scopes) == 0 {
			problem = cmp.Or(err, ErrScope)
			continue
		}
		return Decision{Rule: rule, Scopes: scopes, Bound: bound(rules, actor, s, audience, scopes)}, nil
	}
	if problem != nil {
		return Decision{}, problem
	}
	return Decision{}, errors.Join(reasons...)
}

// accepts checks what no rule can allow. With its own token, a client would combine two rules: the one that
// allowed this token, and another one. A client needs no exchange to act for itself; a chain that ends where it
// began would look like its own token.
func (s *Subject) accepts(actor *Client) error {
	switch {
	case len(s.Clients) > 0 && s.Clients[0].ID == actor.ID:
		return ErrOwnToken
	case s.Client != nil && s.Client.ID == actor.ID:
		return errSelf
	}
	return nil
}

// covers returns why a rule doesn't let the actor act for the subject, or nil.
func (r *Rule) covers(actor *Client, s *Subject) error {
	depth := s.Depth
	if s.Foreign == nil || !s.Foreign.IDJAG {
		depth++
	}
	switch f := s.Foreign; {
	case !r.Actors.Select(actor.ID, actor.Namespace, actor.Selectors):
		return errActor
	case depth > r.MaxDepth:
		return errDepth
	case (f == nil) != (r.Subjects != nil):
		return errKind
	case f == nil:
		return r.coversToken(s)
	case r.Issuer != f.Issuer || r.IDJAG != f.IDJAG:
		return errKind
	case !f.HasClaims(r.Claims):
		return errClaims
	}
	return nil
}

// coversToken returns why a rule isn't for an access token of the realm, or nil.
func (r *Rule) coversToken(s *Subject) error {
	switch {
	case slices.ContainsFunc(s.Clients, func(c Client) bool { return !r.Subjects.Select(c.ID, c.Namespace, c.Selectors) }):
		return errSubject
	case !slices.ContainsFunc(s.Audience, func(a string) bool { return slices.Contains(r.SubjectAudiences, a) }):
		return errAudience
	case slices.ContainsFunc(r.SubjectScopes, func(scope string) bool { return !slices.Contains(s.Scope, scope) }):
		return errScopes
	}
	return nil
}

// AudiencesFor returns the audiences that a rule and the actor allow.
func (r *Rule) AudiencesFor(actor *Client) []string { return common(r.Audiences, actor.Audiences) }

// ScopesFor returns the scopes that a rule and the actor allow, in the order of the rule. The token can limit them.
func (r *Rule) ScopesFor(actor *Client) []string {
	return common(r.Scopes, actor.Scopes, actor.DelegatedScopes)
}

// ScopesOf returns the scopes that a rule allows for a client as the subject, in the order of the rule: a client can't
// be acted for with more than it has itself. The actor and the token can limit them.
func (r *Rule) ScopesOf(subject *Client) []string { return common(r.Scopes, subject.Scopes) }

// scopes returns the scopes that a rule and the actor allow for the subject, in the order of the rule.
func (r *Rule) scopes(actor *Client, s *Subject) []string {
	allowed := r.ScopesFor(actor)
	switch {
	case s.Foreign != nil && !s.Foreign.ScopeLimited:
		return allowed
	case s.Foreign != nil:
		return common(allowed, s.Foreign.Scope)
	case len(r.SubjectScopes) == 0:
		return common(allowed, s.Scope)
	case s.Client != nil:
		return common(allowed, r.ScopesOf(s.Client)) // The token has what the rule requires.
	}
	return allowed
}

// common returns the values that any of the others contains.
func common(values []string, others ...[]string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(value string) bool {
		return !slices.ContainsFunc(others, func(other []string) bool { return slices.Contains(other, value) })
	})
}

// bound reports whether the new token must be bound to a key of the actor. A binding is never removed, and the
// token of a client that requires one is valid only with it. As with grants, any rule that covers the exchange
// and has one of the scopes requires it, whichever rule applies.
func bound(rules []Rule, actor *Client, s *Subject, audience string, scopes []string) bool {
	if actor.DPoP || s.Bound {
		return true
	}
	for i := range rules {
		if r := &rules[i]; r.DPoP && r.covers(actor, s) == nil && slices.Contains(r.Audiences, audience) && len(common(scopes, r.Scopes)) > 0 {
			return true
		}
	}
	return false
}

// Denies reports whether a rule denies a subject to those of its actors to whom another rule, or itself, allows tokens
// for one of the given audiences.
func (r *Rule) Denies(subject string, allowing *Rule, audiences []string) bool {
	return slices.Contains(r.DeniedSubjects, subject) && slices.ContainsFunc(r.Audiences, func(audience string) bool {
		return slices.Contains(audiences, audience) && slices.Contains(allowing.Audiences, audience)
	})
}

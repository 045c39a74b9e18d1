package registry

import (
	"slices"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// NewRule prepares a rule of a realm with the given trusted issuers. The digest includes which tokens are
// accepted of the issuer that the rule names, but not their keys, which change regularly.
func NewRule(e record.Exchange, issuers []Issuer) delegation.Rule {
	digest := e.Digest()
	for i := range issuers {
		if issuer := &issuers[i]; issuer.Name == e.Issuer {
			accepted := e.IDJAG && issuer.IDJAG || !e.IDJAG && issuer.Subjects
			digest = record.Digest([]any{digest, accepted, issuer.Issuer, issuer.Audience, issuer.RequiredClaims})
		}
	}
	return delegation.Rule{
		Name: e.Name, Digest: digest, Actors: delegation.Clients(e.Actors), Subjects: (*delegation.Clients)(e.Subjects),
		Issuer: e.Issuer, IDJAG: e.IDJAG, Claims: e.Claims, SubjectAudiences: e.SubjectAudiences, SubjectScopes: e.SubjectScopes,
		Audiences: e.Audiences, Scopes: e.Scopes, MaxDepth: e.MaxDepth, DPoP: e.DPoP,
		TokenLifetime: time.Duration(e.TokenLifetimeSeconds) * time.Second, DeniedSubjects: e.DeniedSubjects,
	}
}

// Rules returns the rules of the realm in the order in which they are tried. The caller must not
// modify them.
func (r *Realm) Rules() []delegation.Rule { return r.rules }

// IDJAGIssuer returns the trusted issuer with the given URL whose ID-JAGs the realm accepts, or nil.
func (r *Realm) IDJAGIssuer(url string) *Issuer {
	for _, issuer := range r.issuers[url] {
		if issuer.IDJAG {
			return issuer
		}
	}
	return nil
}

// Party returns what of the client matters to rules.
func (c *Client) Party() delegation.Client {
	return delegation.Client{
		ID: c.ID, Namespace: c.Namespace, Selectors: c.NamespaceSelectors,
		Audiences: c.Audiences, Scopes: c.Scopes, DelegatedScopes: c.DelegatedScopes, DPoP: c.DPoP,
	}
}

func (c *Client) selected(by *delegation.Clients) bool {
	return by.Select(c.ID, c.Namespace, c.NamespaceSelectors)
}

// ExternalSubject is the prefix of subjects that are not clients of the realm. Client IDs don't contain a
// colon.
const ExternalSubject = "ext:"

// Participants returns the clients of the realm in a valid token: the client to which it was issued, the
// earlier actors, and last the subject unless it is external.
//
// The error is token.ErrInvalid if one of them can't be used, or is another client with the same ID, or if
// the token doesn't have one rule for each actor.
func (r *Realm) Participants(verified *token.Verified, client *Client, now time.Time) ([]*Client, error) {
	all, d := []*Client{client}, verified.Delegation
	if d == nil {
		return all, nil
	}
	for actor := d.Act; actor != nil; actor = actor.Act {
		// The first actor is the client, or one that the issuer of an ID-JAG states.
		if actor.ClientUID != "" && actor != d.Act {
			if err := r.addParticipant(&all, actor.Subject, actor.ClientUID, verified, now); err != nil {
				return nil, err
			}
		}
	}
	if len(all) != len(d.Rules) {
		return nil, token.ErrInvalid
	}
	if strings.HasPrefix(d.Subject, ExternalSubject) {
		return all, nil
	}
	err := r.addParticipant(&all, d.Subject, d.SubjectUID, verified, now)
	return all, err
}

func (r *Realm) addParticipant(all *[]*Client, id, identity string, verified *token.Verified, now time.Time) error {
	client, rules := r.Client(id), verified.Delegation.Rules
	// The participant before this one exchanged the token that was issued to this one.
	exchange := len(*all) - 1
	if client == nil || exchange >= len(rules) || !r.accepts(client, identity, verified, time.Unix(rules[exchange].IssuedAt, 0), now) {
		return token.ErrInvalid
	}
	*all = append(*all, client)
	return nil
}

// accepts reports whether a token is valid for a client, which takes part in it with the given identity
// since the given time.
func (r *Realm) accepts(c *Client, identity string, verified *token.Verified, since, now time.Time) bool {
	return c.Usable(now) && c.hasIdentity(identity) && (!c.DPoP || verified.JKT != "") &&
		!since.Before(c.TokensValidAfter) && !since.Before(r.TokensValidAfter)
}

// Denies returns the name of a rule that denies the subject of a token; empty if none does. participants are the
// clients in the token, as Participants returns them, and audiences are those of the token.
//
// A rule denies its subjects to its actors for its audiences, whichever rule allows the exchange. The token
// states all three, so that the result is the same before and after it is issued. It doesn't state the audience of
// a token that was exchanged for it, but the rules of both leave little choice, usually one.
func (r *Realm) Denies(d *token.Delegation, participants []*Client, audiences []string) string {
	for i, reference := range d.Rules {
		allowing := r.rule(reference)
		if allowing == nil {
			continue // Such a token is not valid.
		}
		for j := range r.rules {
			if rule := &r.rules[j]; rule.Denies(d.Subject, allowing, audiences) && participants[i].selected(&rule.Actors) {
				return rule.Name
			}
		}
		audiences = allowing.SubjectAudiences // The exchanged token had one of them.
	}
	return ""
}

// checkDelegation checks again what allowed a token that acts for another subject: each client in it, and
// each rule. A rule and the issuer that it names must not have changed since, and it must still select the
// clients, whose namespaces can have other labels now. No rule must deny the subject.
//
// The error is token.ErrInvalid.
func (r *Realm) checkDelegation(verified *token.Verified, client *Client, now time.Time) error {
	d := verified.Delegation
	if d == nil {
		return nil
	}
	participants, err := r.Participants(verified, client, now)
	if err != nil {
		return err
	}
	for i, reference := range d.Rules {
		rule := r.rule(reference)
		if rule == nil || !participants[i].selected(&rule.Actors) || rule.DPoP && verified.JKT == "" {
			return token.ErrInvalid
		}
		if rule.Subjects != nil && slices.ContainsFunc(participants[i+1:], func(c *Client) bool { return !c.selected(rule.Subjects) }) {
			return token.ErrInvalid
		}
	}
	if r.Denies(d, participants, verified.Audience) != "" {
		return token.ErrInvalid
	}
	return nil
}

// rule returns the rule that a token refers to, or nil if there is none or it has changed.
func (r *Realm) rule(reference token.Rule) *delegation.Rule {
	for i := range r.rules {
		if rule := &r.rules[i]; rule.Name == reference.Name && rule.Digest == reference.Digest {
			return rule
		}
	}
	return nil
}

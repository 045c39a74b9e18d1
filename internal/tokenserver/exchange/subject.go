// Package exchange decides whether a client may act for the subject of a token, by token exchange (RFC
// 8693) or with an ID-JAG, and what the new token contains. It gets verified tokens and has no state.
package exchange

import (
	"errors"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// Subject is a verified token that a client presents to act for its subject.
type Subject struct {
	// ID is the "sub" of new tokens: a client ID, or registry.ExternalSubject with the name of the issuer
	// and the percent-encoded subject.
	ID string
	// Subject is what matters to rules, and clients are its Clients.
	delegation.Subject
	clients []*registry.Client
	// External identifies an external subject; nil if it is a client.
	External *token.SubjectID
	// Act is the chain of the token's actors, and Rules are the rules that allowed it.
	Act   *token.Actor
	Rules []token.Rule
	// IssuedAt is that of an access token of the realm, in Unix seconds.
	IssuedAt int64
	// MayAct says who may act for the subject (RFC 8693 §4.4); nil if the token doesn't say so.
	MayAct *clientassertion.MayAct
	// JKT is the thumbprint of the key that the client must prove; empty for any key.
	JKT string
	// ExpiresAt is when new tokens expire at the latest; zero if the token doesn't limit them.
	ExpiresAt time.Time
}

// These are the reasons for rejecting a verified token. They are logged but not revealed to the client.
var (
	errSubjectID    = errors.New("sub is not valid Unicode, or is too long for deniedSubjects")
	errForeignActor = errors.New("act does not name an actor, names a client of this realm, or is too long")
	errConfirmation = errors.New("token is bound to something else than a DPoP key")
)

// OfRealm returns the subject of an access token of the realm that is valid at the given time.
//
// The error is token.ErrInvalid.
func OfRealm(realm *registry.Realm, verified *token.Verified, client *registry.Client, now time.Time) (*Subject, error) {
	clients, err := realm.Participants(verified, client, now)
	if err != nil {
		return nil, err
	}
	s := &Subject{
		ID: verified.Subject(), clients: clients, ExpiresAt: verified.ExpiresAt, IssuedAt: verified.IssuedAt.Unix(),
		Subject: delegation.Subject{Clients: make([]delegation.Client, len(clients)), Audience: verified.Audience, Scope: strings.Fields(verified.Scope), Bound: verified.JKT != ""},
	}
	for i, c := range clients {
		s.Clients[i] = c.Party()
	}
	s.Client = &s.Clients[len(clients)-1]
	d := verified.Delegation
	if d == nil {
		return s, nil
	}
	s.External, s.Act, s.Rules = d.SubjectID, d.Act, d.Rules
	if d.SubjectID != nil {
		s.Client = nil
	}
	if s.Act == nil || s.Act.ClientUID == "" {
		// The client got the token with an ID-JAG, so that it isn't in the chain yet.
		s.Act = &token.Actor{Issuer: realm.Issuer, Subject: client.ID, ClientUID: client.Identity, Act: s.Act}
	}
	s.Depth = s.Act.Depth()
	return s, nil
}

// OfIssuer returns the subject of a verified token of an issuer.
//
// The errors are those of clientassertion.Delegation, and reasons for the log.
func OfIssuer(realm *registry.Realm, issuer *registry.Issuer, assertion *clientassertion.Assertion) (*Subject, error) {
	claims, err := assertion.Delegation()
	if err != nil {
		return nil, err
	}
	subject := assertion.Claims.Subject
	s := &Subject{
		ID:        registry.ExternalSubject + issuer.Name + ":" + strings.ReplaceAll(url.QueryEscape(subject), "+", "%20"),
		External:  &token.SubjectID{Format: token.SubjectIDFormat, Issuer: issuer.Issuer, Subject: subject},
		Subject:   delegation.Subject{Foreign: &delegation.Foreign{Issuer: issuer.Name, HasClaims: assertion.HasClaims}, Bound: claims.Confirmation != nil},
		MayAct:    claims.MayAct,
		ExpiresAt: assertion.Claims.Expiry.Time(),
	}
	// Decoding replaces what is invalid, so that two such subjects would be one. Every subject can be denied.
	if strings.ContainsRune(subject, utf8.RuneError) || len(s.ID) > clientassertion.MaxSubject {
		return nil, errSubjectID
	}
	s.Act, err = reduce(realm, issuer, claims.Act)
	s.Depth = s.Act.Depth()
	return s, err
}

// OfIDJAG returns the subject of a verified ID-JAG. The client can present it again until it expires, so
// that it limits a new token less than a subject token does: like a refresh token, not at all.
//
// The errors are those of OfIssuer.
func OfIDJAG(realm *registry.Realm, issuer *registry.Issuer, assertion *clientassertion.Assertion, claims *clientassertion.IDJAG) (*Subject, error) {
	s, err := OfIssuer(realm, issuer, assertion)
	if err != nil {
		return nil, err
	}
	s.Foreign.IDJAG, s.ExpiresAt = true, time.Time{}
	if claims.Scope != nil {
		s.Foreign.Scope, s.Foreign.ScopeLimited = strings.Fields(*claims.Scope), true
	}
	if s.Bound {
		if s.JKT = claims.Confirmation.JKT; s.JKT == "" {
			return nil, errConfirmation
		}
	}
	return s, nil
}

// Actors returns the earlier actors, latest first, for the audit log: client IDs, or the issuer and the subject
// of an actor that another issuer states.
func (s *Subject) Actors() []string {
	var all []string
	for actor := s.Act; actor != nil; actor = actor.Act {
		if actor.ClientUID != "" {
			all = append(all, actor.Subject)
		} else {
			all = append(all, actor.Issuer+" "+actor.Subject)
		}
	}
	return all
}

// reduce returns a chain of actors that an issuer states, without anything but "iss" and "sub". An actor
// without "iss" is one of the issuer. A client of the realm can't be in it, because nothing proves that it
// took part.
func reduce(realm *registry.Realm, issuer *registry.Issuer, stated *clientassertion.Actor) (*token.Actor, error) {
	var outermost *token.Actor
	next := &outermost
	for ; stated != nil; stated = stated.Act {
		actor := &token.Actor{Issuer: stated.Issuer, Subject: stated.Subject}
		if actor.Issuer == "" {
			actor.Issuer = issuer.Issuer
		}
		if actor.Subject == "" || actor.Issuer == realm.Issuer || len(actor.Issuer)+len(actor.Subject) > maxActor {
			return nil, errForeignActor
		}
		*next, next = actor, &actor.Act
	}
	return outermost, nil
}

// maxActor is the maximum size of what an issuer states about an actor, in bytes.
const maxActor = 1024

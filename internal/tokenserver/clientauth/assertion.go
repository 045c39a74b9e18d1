package clientauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
)

// byAssertion authenticates a client by an assertion (RFC 7523 §2.2). The assertion is either
// signed by the client (private_key_jwt), a token of a third party, or a JWT-SVID.
//
// Errors: oauth.ErrAssertionType; oauth.ErrClientIDMismatch; oauth.ErrInvalidClient, wrapping the
// reason for the audit log and the server log; oauth.ErrAssertionsFull; those of byFederation.
func (a *Authenticator) byAssertion(ctx context.Context, realm *registry.Realm, p *oauth.Parameters, now time.Time) (Caller, error) {
	if p.ClientAssertionType != oauth.AssertionTypeJWT && p.ClientAssertionType != oauth.AssertionTypeSPIFFE {
		return Caller{clientID: p.ClientID}, oauth.ErrAssertionType
	}
	assertion, err := clientassertion.Parse(p.ClientAssertion)
	if err != nil {
		return Caller{clientID: p.ClientID}, wrongAssertion(err)
	}
	if p.ClientAssertionType == oauth.AssertionTypeSPIFFE {
		return a.bySVID(ctx, realm, p.ClientID, assertion, now)
	}
	if ofThirdParty(realm, assertion) {
		return a.byFederation(ctx, realm, p.ClientID, assertion, now)
	}
	if p.ClientID != "" && p.ClientID != assertion.Claims.Subject {
		caller := Caller{clientID: p.ClientID, statedIssuer: statedIssuer(realm, assertion)}
		if caller.statedIssuer != IssuerSelf {
			return caller, wrongAssertion(clientassertion.ErrIssuer)
		}
		return caller, oauth.ErrClientIDMismatch
	}
	return a.bySignature(realm, assertion, now)
}

// bySignature authenticates a client by an assertion that it signed with its own key. It remembers
// only valid assertions, so that a third party can't use up a client's "jti" values.
func (a *Authenticator) bySignature(realm *registry.Realm, assertion *clientassertion.Assertion, now time.Time) (Caller, error) {
	caller := Caller{clientID: assertion.Claims.Subject, statedIssuer: statedIssuer(realm, assertion)}
	client := realm.Client(caller.clientID)
	if client == nil {
		return caller, fmt.Errorf("%w: %w", errUnknownClient, errClientNotFound)
	}
	caller.Client = client
	key, err := assertion.VerifyWithAny(client.PublicKeys)
	if err != nil {
		return caller, wrongAssertion(err)
	}
	if err := assertion.CheckSelfSigned(client.ID, realm.Issuer, now); err != nil {
		return caller, wrongAssertion(err)
	}
	caller.CredentialID = key.ID()
	if err := a.checkUsable(realm, client, now); err != nil {
		return caller, err
	}
	switch err := a.usedAssertions.Use(replay.Owner{Namespace: client.Namespace, UID: client.UID}, assertion.Claims.ID, assertion.Claims.Expiry.Time(), now); {
	case errors.Is(err, replay.ErrFull):
		return caller, oauth.ErrAssertionsFull
	case err != nil:
		return caller, wrongAssertion(err)
	}
	a.RecordUse(client, usage.Credential{Type: usage.PublicKey, ID: key.ID()}, now)
	return caller, nil
}

// bySVID authenticates a client by a JWT-SVID (draft-ietf-oauth-spiffe-client-auth). The trusted issuer is the
// trust domain of its subject, and never an issuer with an HTTPS URL. The only audience of the JWT-SVID must be
// the realm's issuer, which must be that of the trusted issuer, too. Like other tokens of third parties, it may
// be reused, and needs no client ID if a client holds its subject.
//
// Errors: those of byFederation.
func (a *Authenticator) bySVID(ctx context.Context, realm *registry.Realm, clientID string, assertion *clientassertion.Assertion, now time.Time) (Caller, error) {
	svid := assertion.AsSVID()
	issuer := trustedIssuer(realm, svid)
	if issuer == nil {
		return Caller{clientID: clientID}, wrongAssertion(clientassertion.ErrIssuer)
	}
	if !slices.Equal(svid.Claims.Audience, []string{realm.Issuer}) {
		return Caller{clientID: clientID, statedIssuer: issuer.Name}, wrongAssertion(clientassertion.ErrAudience)
	}
	return a.byFederation(ctx, realm, clientID, svid, now)
}

var errClientNotFound = errors.New("client not found")

// wrongAssertion adds a reason that appears only in the log.
func wrongAssertion(reason error) error {
	return fmt.Errorf("%w: %w", errWrongAssertion, reason)
}

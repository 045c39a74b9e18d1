package clientauth

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// AuthenticateGrant verifies the assertion of a JWT bearer grant (RFC 7523 §2.1) and returns the
// client that the token of a third party authenticates. If the request authenticates a client, too,
// it must be the same. A client's own assertion is rejected, because it is no grant of anyone else.
//
// Errors: oauth.ErrNoAssertion; those of Authenticate for the client authentication; oauth.ErrNoClientID;
// oauth.ErrNoClusterKeys; oauth.ErrTooManyFailures; oauth.ErrInvalidGrant with the reason.
func (a *Authenticator) AuthenticateGrant(ctx context.Context, realm *registry.Realm, header http.Header, p *oauth.Parameters, source netip.Addr, now time.Time) (Caller, error) {
	if p.Assertion == "" {
		return Caller{clientID: p.ClientID}, oauth.ErrNoAssertion
	}
	clientID := p.ClientID
	if len(header["Authorization"]) > 0 || p.ClientSecret != "" || p.ClientAssertion != "" {
		client, err := a.Authenticate(ctx, realm, header, p, source, now)
		if err != nil {
			return client, err
		}
		clientID = client.Client.ID
	}
	caller, err := a.byGrant(ctx, realm, clientID, p.Assertion, now)
	err = a.concludeAssertion(realm, caller, err, source, now)
	if rejection, ok := errors.AsType[*RejectionError](err); ok {
		err = &RejectionError{oauth.ErrInvalidGrant, rejection.Reason}
	}
	return caller, err
}

func (a *Authenticator) byGrant(ctx context.Context, realm *registry.Realm, clientID, compact string, now time.Time) (Caller, error) {
	assertion, err := clientassertion.Parse(compact)
	if err != nil {
		return Caller{clientID: clientID}, wrongAssertion(err)
	}
	if !ofThirdParty(realm, assertion) {
		return Caller{clientID: clientID, statedIssuer: statedIssuer(realm, assertion)}, wrongAssertion(clientassertion.ErrIssuer)
	}
	return a.byFederation(ctx, realm, clientID, assertion, now)
}

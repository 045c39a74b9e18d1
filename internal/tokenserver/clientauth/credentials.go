package clientauth

import (
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

// findCredentials returns the client ID and secret from the Authorization header or the body. A
// client must use only one of them (RFC 6749 §2.3). If the client sent only an assertion, the
// result is empty.
//
// Errors: oauth.ErrTwoMethods; oauth.ErrClientIDMismatch; oauth.ErrInvalidClient.
func findCredentials(header http.Header, p *oauth.Parameters) (oauth.Credentials, error) {
	authorization := header["Authorization"]
	switch {
	case len(authorization) > 1, p.ClientSecret != "" && p.ClientAssertion != "":
		return oauth.Credentials{}, oauth.ErrTwoMethods
	case len(authorization) == 1 && oauth.IsBasic(authorization[0]):
		return basicCredentials(authorization[0], p)
	case len(authorization) == 1:
		return oauth.Credentials{}, errNoCredentials
	case p.ClientAssertion != "":
		return oauth.Credentials{}, nil
	case !oauth.ValidCredential(p.ClientID) || !oauth.ValidCredential(p.ClientSecret):
		return oauth.Credentials{}, errNoCredentials
	}
	return oauth.Credentials{ClientID: p.ClientID, ClientSecret: p.ClientSecret}, nil
}

func basicCredentials(authorization string, p *oauth.Parameters) (oauth.Credentials, error) {
	if p.ClientSecret != "" || p.ClientAssertion != "" {
		return oauth.Credentials{}, oauth.ErrTwoMethods
	}
	credentials, ok := oauth.ParseBasic(authorization)
	if !ok {
		return oauth.Credentials{}, errNoCredentials
	}
	if p.ClientID != "" && p.ClientID != credentials.ClientID {
		return oauth.Credentials{}, oauth.ErrClientIDMismatch
	}
	return credentials, nil
}

package clientauth

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

// findCredentials returns the client ID and secret from the Authorization header or the body. A client
// must use only one authentication method in a request (RFC 6749 §2.3). Some gateways send the same
// credentials in both places; these are one method. If the client sent only an assertion, the result
// has no secret.
//
// With an error, the result has only the client ID that the request names, if any.
//
// Errors: oauth.ErrTwoMethods; oauth.ErrClientIDMismatch; oauth.ErrInvalidClient.
func findCredentials(header http.Header, p *oauth.Parameters) (oauth.Credentials, error) {
	named := oauth.Credentials{ClientID: p.ClientID}
	authorization := header["Authorization"]
	switch {
	case len(authorization) > 1, p.ClientSecret != "" && p.ClientAssertion != "":
		return named, oauth.ErrTwoMethods
	case len(authorization) == 1 && oauth.IsBasic(authorization[0]):
		return basicCredentials(authorization[0], p)
	case len(authorization) == 1:
		return named, errNoCredentials
	case p.ClientAssertion != "":
		return named, nil
	case !oauth.ValidCredential(p.ClientID) || !oauth.ValidCredential(p.ClientSecret):
		return named, errNoCredentials
	}
	return oauth.Credentials{ClientID: p.ClientID, ClientSecret: p.ClientSecret}, nil
}

func basicCredentials(authorization string, p *oauth.Parameters) (oauth.Credentials, error) {
	credentials, ok := oauth.ParseBasic(authorization)
	named := oauth.Credentials{ClientID: cmp.Or(p.ClientID, credentials.ClientID)}
	switch {
	case p.ClientAssertion != "", !ok && p.ClientSecret != "":
		return named, oauth.ErrTwoMethods
	case !ok:
		return named, errNoCredentials
	case p.ClientSecret == "" && named.ClientID != credentials.ClientID:
		return named, oauth.ErrClientIDMismatch
	case p.ClientSecret == "":
		return credentials, nil
	case named.ClientID != credentials.ClientID, !slices.Contains(credentials.Secrets(), p.ClientSecret):
		return named, oauth.ErrTwoMethods
	}
	// The body shows how the secret in the header is to be read.
	return oauth.Credentials{ClientID: credentials.ClientID, ClientSecret: p.ClientSecret}, nil
}

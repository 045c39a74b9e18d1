package federation_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// presentation is a way to present a token of a trusted issuer.
type presentation struct {
	name      string
	request   func(t testing.TB, s *install.TokenServer, httpClient *http.Client, url, clientID, token string) (install.TokenResponse, error)
	rejection string // the error code for a token that isn't accepted
	status    int
}

var presentations = []presentation{
	{"client_assertion", install.RequestTokenByAssertion, "invalid_client", http.StatusUnauthorized},
	{"jwt-bearer grant", install.RequestTokenByGrant, "invalid_grant", http.StatusBadRequest},
}

func sameElements(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

package record

import (
	"encoding/base64"
	"encoding/json"
)

// These are upper bounds in bytes for everything in a token that doesn't depend on names: the header and the
// largest signature, that of an RSA key; and the members of the claims, the times, the IDs, and the key.
const (
	tokenFrame    = 512
	tokenConstant = 512
)

// LargestToken returns an upper bound in bytes for the tokens that a client gets for itself: those with all of its
// scopes and audiences. It uses the client's ID, scopes, audiences, and claims.
func LargestToken(issuer string, c *Client) int {
	id, _ := json.Marshal(c.ClientID)                                                 // A string can always be encoded.
	claims := tokenConstant + 2*len(issuer) + 2*len(id) + len(EncodeClaims(c.Claims)) // "iss" and "status"; "sub" and "client_id"
	for _, audience := range c.Audiences {
		claims += len(`,""`) + len(audience)
	}
	for _, scope := range c.Scopes {
		claims += len(" ") + len(scope)
	}
	return tokenFrame + base64.RawURLEncoding.EncodedLen(claims)
}

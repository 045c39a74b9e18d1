package signingkey

import (
	"crypto"
	"encoding/base64"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Thumbprint returns the key's JWK SHA-256 thumbprint (RFC 7638) in base64url without padding. A
// token that is bound to the key states it as "jkt" (RFC 9449 §6.1).
func (k PublicKey) Thumbprint() (string, error) {
	sum, err := (&jose.JSONWebKey{Key: k.key}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("computing the thumbprint of a key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

package trustedissuers

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// metadataURL returns the URL of an issuer's metadata (OpenID Connect Discovery 1.0 §4).
func metadataURL(issuer string) string {
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
}

// parseMetadata returns the URL of the key set from an issuer's metadata. The metadata must be for
// exactly this issuer (OpenID Connect Discovery 1.0 §4.3). The URL may be at another host, as with
// Google.
func parseMetadata(data []byte, issuer string) (string, error) {
	var metadata struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if json.Unmarshal(data, &metadata) != nil {
		return "", ErrMetadata
	}
	if metadata.Issuer != issuer {
		return "", ErrIssuer
	}
	location, err := url.Parse(metadata.JWKSURI)
	if err != nil || location.Scheme != "https" || location.Host == "" || location.User != nil || strings.Contains(metadata.JWKSURI, "#") {
		return "", ErrMetadata
	}
	return metadata.JWKSURI, nil
}

// parseKeys returns the keys of a fetched key set.
func parseKeys(data []byte) ([]signingkey.PublicKey, error) {
	keys, _, err := signingkey.ParseKeySet(data)
	switch {
	case errors.Is(err, signingkey.ErrPrivateKey):
		return nil, ErrPrivateKey
	case errors.Is(err, signingkey.ErrNoKeys):
		return nil, ErrNoKeys
	case err != nil:
		return nil, ErrKeySet
	}
	return keys, nil
}

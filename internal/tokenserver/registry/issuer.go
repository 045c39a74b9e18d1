package registry

import "github.com/realmkeeper/realmkeeper/internal/signingkey"

// Issuer is an issuer whose tokens can authenticate a realm's clients.
type Issuer struct {
	Name string // unique within the realm
	URL  string // "iss", unique within the realm
	// Audience is the only audience that a token must have.
	Audience string
	// RequiredClaims are claims that a token must have, with their values.
	RequiredClaims map[string]string
	// Keys verify the issuer's tokens. Several keys can have the same ID.
	Keys []signingkey.PublicKey
}

// maxKeysPerID limits how many signatures are verified for one token. Issuers publish a key twice if
// it is for two algorithms.
const maxKeysPerID = 2

// KeysOf returns the keys with the given ID that verify the given algorithm, at most maxKeysPerID.
// It also reports whether there is any key with this ID.
func (i *Issuer) KeysOf(id string, algorithm signingkey.Algorithm) (keys []signingkey.PublicKey, known bool) {
	for _, key := range i.Keys {
		if key.ID() != id {
			continue
		}
		known = true
		if key.Algorithm() == algorithm && len(keys) < maxKeysPerID {
			keys = append(keys, key)
		}
	}
	return keys, known
}

// TrustedIssuer returns the trusted issuer with the given URL, or nil. The caller must not modify it.
func (r *Realm) TrustedIssuer(url string) *Issuer { return r.issuers[url] }

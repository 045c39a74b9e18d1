package registry

import (
	"slices"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// Issuer is an issuer whose tokens can authenticate a realm's clients, or be exchanged. Several of its keys can
// have the same ID.
type Issuer record.Issuer

// maxKeysPerID limits how many signatures are verified for one token. Issuers publish a key twice if
// it is for two algorithms.
const maxKeysPerID = 2

// MaxKeysWithoutID is the maximum number of keys of an issuer for an algorithm with which a token without an
// ID of a key is verified: the current one and the next.
const MaxKeysWithoutID = 2

// KeysOf returns the keys with the given ID that verify the given algorithm, at most maxKeysPerID. It also
// reports whether there is any key with this ID. If the ID is empty, it returns all keys for the algorithm.
func (i *Issuer) KeysOf(id string, algorithm signingkey.Algorithm) (keys []signingkey.PublicKey, known bool) {
	for _, key := range i.Keys {
		if id != "" && key.ID() != id {
			continue
		}
		known = true
		if key.Algorithm() == algorithm && (id == "" || len(keys) < maxKeysPerID) {
			keys = append(keys, key)
		}
	}
	return keys, known
}

// TrustedIssuer returns the trusted issuer of tokens with the given iss and aud claims, or nil. Several
// issuers can have the same URL, as clusters often do; their tokens are told apart by their audience. If
// the audience is of none of them, TrustedIssuer returns the first, whose check rejects it. The caller must
// not modify the issuer.
func (r *Realm) TrustedIssuer(url string, audiences []string) *Issuer {
	issuers := r.issuers[url]
	for _, issuer := range issuers {
		if slices.Contains(audiences, issuer.Audience) {
			return issuer
		}
	}
	if len(issuers) == 0 {
		return nil
	}
	return issuers[0]
}

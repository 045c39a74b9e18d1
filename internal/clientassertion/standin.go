package clientassertion

import (
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// standIns are keys that nobody has the private half of, for every algorithm: whoever has no key is
// refused with one of these, so that the time taken doesn't tell who has.
var standIns = parseStandIns(
	`{"kty":"EC","crv":"P-256","alg":"ES256","x":"HPJgmOSiIwaVdJGrkC6wYmPTWx3fNnF2RTbgfGXUhiU","y":"lAaM7lEByIlO7V-b425qiIr5sMoDx68Ag1-_21o3IeY"}`,
	`{"kty":"EC","crv":"P-384","alg":"ES384","x":"K54GZIDRObqBRtv3wR2A1kM6tszAayumKb8lmPPjRfmPonx04YC8BRjv6Zcz-lHR","y":"twvsSJeXNJ8jlelRNz7oSJnNIPLJbKtokDoyZ9sKPFxpLd0ROcJD6_msdQpgK25o"}`,
	`{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","x":"sIgF-dViOPumMHxnatGGaW0DHAXMV4FajGZCJKXeFBo"}`,
	rsaStandIn,
	strings.Replace(rsaStandIn, string(signingkey.RS256), string(signingkey.PS256), 1),
)

const rsaStandIn = `{"kty":"RSA","alg":"RS256","n":"zmQqcmQuDYqQBm4VKuQ1mwKqUvv23aTmIDBitQi0b70f6xWjhliBzMDGSrt8wMyYA9_hDy8x97minQvYR2p_6exkCF8I3nFF_owSitnlhstIlzGsqwtdU6IkC_57zs2cQeo3FORwqftsAHi13NpTy9Tk-24RaVqlkWvQ1iIjzQEoixVBgBadUdQ3JDIBAdy4Qesv70tnxwFnp0-5KQQO5sH3cTENO51m1OLuUUGwZWl0pIOwnwJ0DWq-ekGHXlKb4yQRrp01BUrsAb7nO5L-O38__ooOHWwbVbHsSphRZcLVzf1kAHhq4GM4vHNMYDKKWmJJ1z7hYeZLA6ylM64WEQ","e":"AQAB"}`

func parseStandIns(jwks ...string) map[signingkey.Algorithm]signingkey.PublicKey {
	keys := map[signingkey.Algorithm]signingkey.PublicKey{}
	for _, jwk := range jwks {
		key, err := signingkey.ParsePublicKey([]byte(jwk))
		if err != nil {
			panic(err) // they stand above
		}
		keys[key.Algorithm()] = key
	}
	return keys
}

// Refuse takes as long as Verify, and returns err whatever comes of it: for an assertion whose
// client doesn't exist, or has no such key.
func (a *Assertion) Refuse(err error) error {
	if key, ok := standIns[a.Algorithm]; ok {
		_ = a.Verify(key)
	}
	return err
}

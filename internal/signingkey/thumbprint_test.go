package signingkey_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// The keys and thumbprints are the examples of RFC 9449 §4.1 and §6.1, and RFC 7638 §3.1.
func TestThumbprint(t *testing.T) {
	tests := map[string]struct{ jwk, want string }{
		"EC": {
			`{"kty":"EC","crv":"P-256","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"}`,
			"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I",
		},
		"RSA, other members don't count": {
			`{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}`,
			"NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key := testkit.Value(signingkey.ParsePublicKey([]byte(tc.jwk)))(t)
			if got, err := key.Thumbprint(); err != nil || got != tc.want {
				t.Errorf("thumbprint %q, error %v, want %q", got, err, tc.want)
			}
		})
	}
}

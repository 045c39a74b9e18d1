package clientassertion_test

import (
	"errors"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
)

func TestCheckSelfSigned(t *testing.T) {
	key := keys()[signingkey.EdDSA]
	at := func(d time.Duration) int64 { return now.Truncate(time.Second).Add(d).Unix() }
	for name, tc := range map[string]struct {
		claims  members
		wantErr error
	}{
		"good":                          {},
		"for the token endpoint":        {claims: members{"aud": endpoint}},
		"for one of a list":             {claims: members{"aud": []string{issuer}}},
		"without iat":                   {claims: members{"iat": nil}},
		"valid for a second":            {claims: members{"exp": at(time.Second)}},
		"valid for five minutes":        {claims: members{"exp": at(5 * time.Minute)}},
		"a fraction in exp":             {claims: members{"exp": float64(at(time.Minute)) + 0.5}},
		"from a clock that is ahead":    {claims: members{"iat": at(30 * time.Second), "nbf": at(30 * time.Second)}},
		"made long ago":                 {claims: members{"iat": at(-24 * time.Hour), "nbf": at(-24 * time.Hour)}},
		"of another client":             {claims: members{"iss": "other", "sub": "other"}, wantErr: clientassertion.ErrSubject},
		"about another client":          {claims: members{"sub": "other"}, wantErr: clientassertion.ErrSubject},
		"about nobody":                  {claims: members{"sub": nil}, wantErr: clientassertion.ErrSubject},
		"issued by another client":      {claims: members{"iss": "other"}, wantErr: clientassertion.ErrIssuer},
		"issued by nobody":              {claims: members{"iss": nil}, wantErr: clientassertion.ErrIssuer},
		"for nobody":                    {claims: members{"aud": nil}, wantErr: clientassertion.ErrAudience},
		"for none of a list":            {claims: members{"aud": []string{}}, wantErr: clientassertion.ErrAudience},
		"for another realm":             {claims: members{"aud": "https://api.example.com/other"}, wantErr: clientassertion.ErrAudience},
		"for the issuer with a slash":   {claims: members{"aud": issuer + "/"}, wantErr: clientassertion.ErrAudience},
		"for the issuer in capitals":    {claims: members{"aud": "HTTPS://api.example.com/acme"}, wantErr: clientassertion.ErrAudience},
		"for us and somebody else":      {claims: members{"aud": []string{issuer, "https://example.com"}}, wantErr: clientassertion.ErrAudience},
		"for us twice":                  {claims: members{"aud": []string{issuer, endpoint}}, wantErr: clientassertion.ErrAudience},
		"without exp":                   {claims: members{"exp": nil}, wantErr: clientassertion.ErrNoExpiry},
		"expired":                       {claims: members{"exp": at(0)}, wantErr: clientassertion.ErrExpired},
		"expired long ago":              {claims: members{"exp": -1}, wantErr: clientassertion.ErrExpired},
		"valid for too long":            {claims: members{"exp": at(5*time.Minute + time.Second)}, wantErr: clientassertion.ErrTooLong},
		"valid for ever":                {claims: members{"exp": 1 << 61}, wantErr: clientassertion.ErrTooLong},
		"not valid yet":                 {claims: members{"nbf": at(31 * time.Second)}, wantErr: clientassertion.ErrNotYetValid},
		"made in the future":            {claims: members{"iat": at(31 * time.Second)}, wantErr: clientassertion.ErrNotYetValid},
		"without jti":                   {claims: members{"jti": nil}, wantErr: clientassertion.ErrNoID},
		"with an empty jti":             {claims: members{"jti": ""}, wantErr: clientassertion.ErrNoID},
		"with claims that nobody knows": {claims: members{"scope": "admin", "x": []int{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := parse(t, sign(t, key, nil, tc.claims))
			if err := a.CheckSelfSigned("billing", []string{issuer, endpoint}, now); !errors.Is(err, tc.wantErr) {
				t.Errorf("%v, want %v", err, tc.wantErr)
			}
		})
	}
}

func TestKeyFor(t *testing.T) {
	ecdsa, rsa := keys()[signingkey.ES256], keys()[signingkey.RS256]
	first, second := ecdsa.Public(), rsa.Public()
	for name, tc := range map[string]struct {
		header members
		keys   []signingkey.PublicKey
		want   string
	}{
		"by its id":                    {nil, []signingkey.PublicKey{second, first}, first.ID()},
		"the only one":                 {members{"kid": nil}, []signingkey.PublicKey{first}, first.ID()},
		"no id, and two keys":          {members{"kid": nil}, []signingkey.PublicKey{first, second}, ""},
		"no id, and the other's only":  {members{"kid": nil}, []signingkey.PublicKey{second}, ""},
		"another id":                   {members{"kid": "other"}, []signingkey.PublicKey{first}, ""},
		"the id of another's key":      {members{"kid": second.ID()}, []signingkey.PublicKey{first, second}, ""},
		"a client that has no keys":    {nil, nil, ""},
		"no id, and no keys to choose": {members{"kid": nil}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, sign(t, ecdsa, tc.header, nil)).KeyFor(tc.keys)
			if got.ID() != tc.want || errors.Is(err, clientassertion.ErrKey) != (tc.want == "") {
				t.Errorf("%q, %v; want %q", got.ID(), err, tc.want)
			}
		})
	}
}

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
		"valid":                        {},
		"audience is token endpoint":   {claims: members{"aud": endpoint}},
		"audience is a list of one":    {claims: members{"aud": []string{issuer}}},
		"no iat":                       {claims: members{"iat": nil}},
		"expires in a second":          {claims: members{"exp": at(time.Second)}},
		"expires in five minutes":      {claims: members{"exp": at(5 * time.Minute)}},
		"fraction in exp":              {claims: members{"exp": float64(at(time.Minute)) + 0.5}},
		"signer's clock is ahead":      {claims: members{"iat": at(30 * time.Second), "nbf": at(30 * time.Second)}},
		"issued long ago":              {claims: members{"iat": at(-24 * time.Hour), "nbf": at(-24 * time.Hour)}},
		"other issuer and subject":     {claims: members{"iss": "other", "sub": "other"}, wantErr: clientassertion.ErrSubject},
		"other subject":                {claims: members{"sub": "other"}, wantErr: clientassertion.ErrSubject},
		"no subject":                   {claims: members{"sub": nil}, wantErr: clientassertion.ErrSubject},
		"other issuer":                 {claims: members{"iss": "other"}, wantErr: clientassertion.ErrIssuer},
		"no issuer":                    {claims: members{"iss": nil}, wantErr: clientassertion.ErrIssuer},
		"no audience":                  {claims: members{"aud": nil}, wantErr: clientassertion.ErrAudience},
		"audience is an empty list":    {claims: members{"aud": []string{}}, wantErr: clientassertion.ErrAudience},
		"audience is another realm":    {claims: members{"aud": "https://api.example.com/other"}, wantErr: clientassertion.ErrAudience},
		"audience with a slash":        {claims: members{"aud": issuer + "/"}, wantErr: clientassertion.ErrAudience},
		"audience in upper case":       {claims: members{"aud": "HTTPS://api.example.com/acme"}, wantErr: clientassertion.ErrAudience},
		"second audience":              {claims: members{"aud": []string{issuer, "https://example.com"}}, wantErr: clientassertion.ErrAudience},
		"two valid audiences":          {claims: members{"aud": []string{issuer, endpoint}}, wantErr: clientassertion.ErrAudience},
		"no exp":                       {claims: members{"exp": nil}, wantErr: clientassertion.ErrNoExpiry},
		"expired":                      {claims: members{"exp": at(0)}, wantErr: clientassertion.ErrExpired},
		"expired long ago":             {claims: members{"exp": -1}, wantErr: clientassertion.ErrExpired},
		"expires in over five minutes": {claims: members{"exp": at(5*time.Minute + time.Second)}, wantErr: clientassertion.ErrTooLong},
		"practically never expires":    {claims: members{"exp": 1 << 61}, wantErr: clientassertion.ErrTooLong},
		"not valid yet":                {claims: members{"nbf": at(31 * time.Second)}, wantErr: clientassertion.ErrNotYetValid},
		"issued in the future":         {claims: members{"iat": at(31 * time.Second)}, wantErr: clientassertion.ErrNotYetValid},
		"no jti":                       {claims: members{"jti": nil}, wantErr: clientassertion.ErrNoID},
		"empty jti":                    {claims: members{"jti": ""}, wantErr: clientassertion.ErrNoID},
		"unknown claims":               {claims: members{"scope": "admin", "x": []int{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := parse(t, sign(t, key, nil, tc.claims))
			if err := a.CheckSelfSigned("billing", []string{issuer, endpoint}, now); !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v", err, tc.wantErr)
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
		"by ID":                          {nil, []signingkey.PublicKey{second, first}, first.ID()},
		"only key":                       {members{"kid": nil}, []signingkey.PublicKey{first}, first.ID()},
		"no ID, two keys":                {members{"kid": nil}, []signingkey.PublicKey{first, second}, ""},
		"no ID, key for other algorithm": {members{"kid": nil}, []signingkey.PublicKey{second}, ""},
		"unknown ID":                     {members{"kid": "other"}, []signingkey.PublicKey{first}, ""},
		"ID of key for other algorithm":  {members{"kid": second.ID()}, []signingkey.PublicKey{first, second}, ""},
		"no keys":                        {nil, nil, ""},
		"no ID, no keys":                 {members{"kid": nil}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, sign(t, ecdsa, tc.header, nil)).KeyFor(tc.keys)
			if got.ID() != tc.want || errors.Is(err, clientassertion.ErrKey) != (tc.want == "") {
				t.Errorf("key %q, error %v, want key %q", got.ID(), err, tc.want)
			}
		})
	}
}

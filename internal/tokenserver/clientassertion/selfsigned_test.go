package clientassertion_test

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

func TestCheckSelfSigned(t *testing.T) {
	key := keys()[signingkey.EdDSA]
	at := func(d time.Duration) int64 { return now.Truncate(time.Second).Add(d).Unix() }
	for name, tc := range map[string]struct {
		claims  members
		wantErr error
	}{
		"valid":                        {},
		"audience is a list of one":    {claims: members{"aud": []string{issuer}}},
		"no iat":                       {claims: members{"iat": nil}},
		"expires in a second":          {claims: members{"exp": at(time.Second)}},
		"expires in five minutes":      {claims: members{"exp": at(5 * time.Minute)}},
		"fraction in exp":              {claims: members{"exp": float64(at(time.Minute)) + 0.5}},
		"signer's clock is ahead":      {claims: members{"iat": at(30 * time.Second), "nbf": at(30 * time.Second), "exp": at(5*time.Minute + 30*time.Second)}},
		"issued long ago":              {claims: members{"iat": at(-24 * time.Hour), "nbf": at(-24 * time.Hour)}},
		"other issuer and subject":     {claims: members{"iss": "other", "sub": "other"}, wantErr: clientassertion.ErrSubject},
		"other subject":                {claims: members{"sub": "other"}, wantErr: clientassertion.ErrSubject},
		"no subject":                   {claims: members{"sub": nil}, wantErr: clientassertion.ErrSubject},
		"other issuer":                 {claims: members{"iss": "other"}, wantErr: clientassertion.ErrIssuer},
		"no issuer":                    {claims: members{"iss": nil}, wantErr: clientassertion.ErrIssuer},
		"no audience":                  {claims: members{"aud": nil}, wantErr: clientassertion.ErrAudience},
		"audience is an empty list":    {claims: members{"aud": []string{}}, wantErr: clientassertion.ErrAudience},
		"audience is token endpoint":   {claims: members{"aud": endpoint}, wantErr: clientassertion.ErrAudience},
		"audience is another realm":    {claims: members{"aud": "https://api.example.com/other"}, wantErr: clientassertion.ErrAudience},
		"audience with a slash":        {claims: members{"aud": issuer + "/"}, wantErr: clientassertion.ErrAudience},
		"audience in upper case":       {claims: members{"aud": "HTTPS://api.example.com/acme"}, wantErr: clientassertion.ErrAudience},
		"second audience":              {claims: members{"aud": []string{issuer, "https://example.com"}}, wantErr: clientassertion.ErrAudience},
		"issuer and token endpoint":    {claims: members{"aud": []string{issuer, endpoint}}, wantErr: clientassertion.ErrAudience},
		"no exp":                       {claims: members{"exp": nil}, wantErr: clientassertion.ErrNoExpiry},
		"expired":                      {claims: members{"exp": at(0)}, wantErr: clientassertion.ErrExpired},
		"expired long ago":             {claims: members{"exp": -1}, wantErr: clientassertion.ErrExpired},
		"expires in over five minutes": {claims: members{"exp": at(5*time.Minute + 31*time.Second)}, wantErr: clientassertion.ErrTooLong},
		"practically never expires":    {claims: members{"exp": 1 << 61}, wantErr: clientassertion.ErrTooLong},
		"not valid yet":                {claims: members{"nbf": at(31 * time.Second)}, wantErr: clientassertion.ErrNotYetValid},
		"issued in the future":         {claims: members{"iat": at(31 * time.Second)}, wantErr: clientassertion.ErrNotYetValid},
		"no jti":                       {claims: members{"jti": nil}, wantErr: clientassertion.ErrNoID},
		"empty jti":                    {claims: members{"jti": ""}, wantErr: clientassertion.ErrNoID},
		"unknown claims":               {claims: members{"scope": "admin", "x": []int{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := parse(t, sign(t, key, nil, tc.claims))
			if err := a.CheckSelfSigned("billing", issuer, now); !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v", err, tc.wantErr)
			}
		})
	}
}

// An assertion is verified with the key that its kid names. Without a kid, it is verified with every
// key of its algorithm, regardless of the order of the keys.
func TestVerifyWithAny(t *testing.T) {
	ecdsa, rsa := keys()[signingkey.ES256], keys()[signingkey.RS256]
	another, err := signingkey.Generate(signingkey.ES256, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own, sameAlgorithm, otherAlgorithm := ecdsa.Public(), another.Public(), rsa.Public()
	noID := members{"kid": nil}
	for name, tc := range map[string]struct {
		header  members
		keys    []signingkey.PublicKey
		wantErr error
	}{
		"by ID":                          {nil, []signingkey.PublicKey{sameAlgorithm, otherAlgorithm, own}, nil},
		"no ID, only key":                {noID, []signingkey.PublicKey{own}, nil},
		"no ID, first key":               {noID, []signingkey.PublicKey{own, sameAlgorithm, otherAlgorithm}, nil},
		"no ID, last key":                {noID, []signingkey.PublicKey{otherAlgorithm, sameAlgorithm, own}, nil},
		"no ID, key of third party":      {noID, []signingkey.PublicKey{sameAlgorithm, otherAlgorithm}, jws.ErrSignature},
		"no ID, key for other algorithm": {noID, []signingkey.PublicKey{otherAlgorithm}, jws.ErrKey},
		"no ID, no keys":                 {noID, nil, jws.ErrKey},
		"unknown ID":                     {members{"kid": "other"}, []signingkey.PublicKey{own}, jws.ErrKey},
		"ID of another key":              {members{"kid": sameAlgorithm.ID()}, []signingkey.PublicKey{own, sameAlgorithm}, jws.ErrSignature},
		"ID of key for other algorithm":  {members{"kid": otherAlgorithm.ID()}, []signingkey.PublicKey{own, otherAlgorithm}, jws.ErrKey},
		"no keys":                        {nil, nil, jws.ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, sign(t, ecdsa, tc.header, nil)).VerifyWithAny(tc.keys)
			if !errors.Is(err, tc.wantErr) || err == nil && got.ID() != own.ID() {
				t.Errorf("key %q, error %v, want error %v", got.ID(), err, tc.wantErr)
			}
		})
	}
}

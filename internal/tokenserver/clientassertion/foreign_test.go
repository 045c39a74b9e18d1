package clientassertion_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
)

const gitlab = "https://gitlab.com"

var required = map[string]string{"namespace_id": "4711"}

// job returns the claims of a token for a CI job, with the given changes.
func job(change members) members {
	claims := members{
		"iss": gitlab, "sub": "project_path:acme/shop:ref_type:branch:ref:main", "aud": issuer, "jti": nil,
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "namespace_id": "4711", "project_path": "acme/shop",
	}
	maps.Copy(claims, change)
	return claims
}

func TestCheckForeign(t *testing.T) {
	key := keys()[signingkey.RS256]
	at := func(d time.Duration) int64 { return now.Truncate(time.Second).Add(d).Unix() }
	svid := func(subject string, iss any) members {
		return job(members{"iss": iss, "sub": subject})
	}
	for name, tc := range map[string]struct {
		claims  members
		wantErr error
	}{
		"valid":                          {claims: job(nil)},
		"jti":                            {claims: job(members{"jti": "one"})},
		"list of one audience":           {claims: job(members{"aud": []string{issuer}})},
		"expires in a day, clock ahead":  {claims: job(members{"exp": at(24*time.Hour + 30*time.Second)})},
		"longest subject":                {claims: job(members{"sub": strings.Repeat("s", 512)})},
		"subject is too long":            {claims: job(members{"sub": strings.Repeat("s", 513)}), wantErr: clientassertion.ErrSubject},
		"no subject":                     {claims: job(members{"sub": nil}), wantErr: clientassertion.ErrSubject},
		"second audience":                {claims: job(members{"aud": []string{issuer, "https://example.com"}}), wantErr: clientassertion.ErrAudience},
		"token endpoint as audience":     {claims: job(members{"aud": endpoint}), wantErr: clientassertion.ErrAudience},
		"no audience":                    {claims: job(members{"aud": nil}), wantErr: clientassertion.ErrAudience},
		"no exp":                         {claims: job(members{"exp": nil}), wantErr: clientassertion.ErrNoExpiry},
		"expired":                        {claims: job(members{"exp": at(0)}), wantErr: clientassertion.ErrExpired},
		"valid for too long":             {claims: job(members{"exp": at(24*time.Hour + 31*time.Second)}), wantErr: clientassertion.ErrTooLong},
		"practically never expires":      {claims: job(members{"exp": 1 << 61}), wantErr: clientassertion.ErrTooLong},
		"issued later":                   {claims: job(members{"iat": at(31 * time.Second)}), wantErr: clientassertion.ErrNotYetValid},
		"required claim is missing":      {claims: job(members{"namespace_id": nil}), wantErr: clientassertion.ErrRequiredClaim},
		"required claim is a number":     {claims: job(members{"namespace_id": 4711}), wantErr: clientassertion.ErrRequiredClaim},
		"required claim has other value": {claims: job(members{"namespace_id": "4711 "}), wantErr: clientassertion.ErrRequiredClaim},
		"required claim is a list":       {claims: job(members{"namespace_id": []string{"4711"}}), wantErr: clientassertion.ErrRequiredClaim},
		"required claim in other case":   {claims: job(members{"namespace_id": nil, "Namespace_id": "4711"}), wantErr: clientassertion.ErrRequiredClaim},
		"SVID":                           {claims: svid("spiffe://example.org/ns/apps/sa/billing", "spiffe://example.org")},
		"SVID without iss":               {claims: svid("spiffe://example.org/ns/apps/sa/billing", nil)},
		"SVID of another domain":         {claims: svid("spiffe://example.com/billing", "spiffe://example.org"), wantErr: clientassertion.ErrSubject},
		"SVID of a longer domain":        {claims: svid("spiffe://example.org.evil/billing", "spiffe://example.org"), wantErr: clientassertion.ErrSubject},
		"SVID without a path":            {claims: svid("spiffe://example.org", nil), wantErr: clientassertion.ErrSubject},
		"SVID without a domain":          {claims: svid("spiffe:///billing", nil)}, // no realm can trust the issuer spiffe://
		"SVID of an HTTPS issuer":        {claims: svid("spiffe://example.org/billing", "https://oidc.example.org")},
	} {
		t.Run(name, func(t *testing.T) {
			a := parse(t, sign(t, key, nil, tc.claims))
			if err := a.CheckForeign(issuer, required, now); !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v", err, tc.wantErr)
			}
		})
	}
}

// Only JWT-SVIDs have an issuer without "iss".
func TestIssuer(t *testing.T) {
	key := keys()[signingkey.ES256]
	for name, tc := range map[string]struct {
		iss, sub any
		want     string
	}{
		"iss":                   {gitlab, "a", gitlab},
		"SVID":                  {nil, "spiffe://example.org/a/b", "spiffe://example.org"},
		"SVID with iss":         {gitlab, "spiffe://example.org/a", gitlab},
		"SVID of a domain":      {nil, "spiffe://example.org", "spiffe://example.org"},
		"upper-case scheme":     {nil, "SPIFFE://example.org/a", ""},
		"subject of a URL":      {nil, "https://example.org/a", ""},
		"no iss":                {nil, "a", ""},
		"neither":               {nil, nil, ""},
		"subject with a prefix": {nil, " spiffe://example.org/a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parse(t, sign(t, key, nil, members{"iss": tc.iss, "sub": tc.sub})).Issuer(); got != tc.want {
				t.Errorf("issuer %q, want %q", got, tc.want)
			}
		})
	}
}

// FuzzCheckForeign checks that the claims of a foreign token can't make the checks accept more than
// was asked for.
func FuzzCheckForeign(f *testing.F) {
	key := keys()[signingkey.ES256]
	for _, claims := range []members{job(nil), job(members{"aud": []string{issuer, "x"}}), job(members{"sub": "spiffe://a/b", "iss": nil}), job(members{"namespace_id": 1})} {
		data, err := json.Marshal(claims)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"iss":"a","sub":"b","aud":"` + issuer + `","exp":1e300,"namespace_id":"4711"}`))
	f.Add([]byte(`{"sub":"b","aud":["` + issuer + `"],"exp":1772370000,"namespace_id":"4711","namespace_id":"1"}`))
	f.Fuzz(func(t *testing.T, claims []byte) {
		compact := signText(t, key, encode(t, members{"alg": "ES256", "kid": "a"}, nil), encodeText(claims))
		a, err := clientassertion.Parse(compact)
		if err != nil {
			return
		}
		if a.Verify(key.Public()) != nil {
			t.Fatal("the signature is not valid")
		}
		a.Issuer()
		if a.CheckForeign(issuer, required, now) != nil {
			return
		}
		var got map[string]any // names in another case are other claims
		if err := json.Unmarshal(claims, &got); err != nil {
			t.Fatalf("accepted claims that are not valid: %s: %v", claims, err)
		}
		if list, ok := got["aud"].([]any); ok && len(list) == 1 {
			got["aud"] = list[0]
		}
		subject, _ := got["sub"].(string)
		expires, _ := got["exp"].(float64)
		unix := float64(now.UnixNano()) / 1e9
		if got["aud"] != issuer || got["namespace_id"] != "4711" || subject == "" || len(subject) > 512 || expires < unix-1 || expires > unix+86431 {
			t.Fatalf("accepted %s", claims)
		}
		if got["other"] != "value" && a.HasClaims(map[string]string{"namespace_id": "4711", "other": "value"}) {
			t.Fatalf("found a claim that is missing in %s", claims)
		}
	})
}

func encodeText(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

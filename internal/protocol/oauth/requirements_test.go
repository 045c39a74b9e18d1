package oauth_test

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

// A requirement is either enforced as it is written, or the request is rejected.
func TestParseRequirements(t *testing.T) {
	tests := map[string]struct {
		query   string
		want    oauth.Requirements
		wantErr error
	}{
		"two scopes":                     {query: "scope=a+b", want: oauth.Requirements{Scope: "a b"}},
		"delegated":                      {query: "delegated=true", want: oauth.Requirements{Delegated: true}},
		"delegated has another value":    {query: "delegated=false", wantErr: oauth.ErrDelegatedValue},
		"delegated is empty":             {query: "delegated=", wantErr: oauth.ErrEmptyRequirement},
		"delegated repeats":              {query: "delegated=true&delegated=true", wantErr: oauth.ErrRepeated},
		"audience":                       {query: "audience=https://x/?y", want: oauth.Requirements{Audience: "https://x/?y"}},
		"a semicolon is not a separator": {query: "scope=a;audience=b", want: oauth.Requirements{Scope: "a;audience=b"}},
		"claims":                         {query: "claims=tenant+plan_name+a-b+A1", want: oauth.Requirements{Claims: "tenant plan_name a-b A1"}},
		"16 claims":                      {query: "claims=" + claimNames(16), want: oauth.Requirements{Claims: strings.ReplaceAll(claimNames(16), "+", " ")}},
		"forwarded headers":              {query: "dpop=forwarded&scope=a", want: oauth.Requirements{Scope: "a", DPoP: oauth.DPoPForwarded}},
		"empty claims":                   {query: "claims=", wantErr: oauth.ErrEmptyRequirement},
		"17 claims":                      {query: "claims=" + claimNames(17), wantErr: oauth.ErrClaimNames},
		"two spaces between claims":      {query: "claims=a++b", wantErr: oauth.ErrClaimNames},
		"claim that no header can name":  {query: "claims=a:b", wantErr: oauth.ErrClaimNames},
		"the same claim twice":           {query: "claims=a+a", wantErr: oauth.ErrClaimNames},
		"two claims with one header":     {query: "claims=a_B+a-b", wantErr: oauth.ErrClaimNames},
		"unknown headers":                {query: "dpop=host", wantErr: oauth.ErrDPoPHeaders},
		"misspelled":                     {query: "scope=a&audiance=b", wantErr: oauth.ErrUnknownRequirement},
		"resource":                       {query: "resource=https://x", wantErr: oauth.ErrUnknownRequirement},
		"extra separator":                {query: "scope=a&", wantErr: oauth.ErrUnknownRequirement},
		"empty scope":                    {query: "scope=&audience=a", wantErr: oauth.ErrEmptyRequirement},
		"empty audience":                 {query: "scope=a&audience=", wantErr: oauth.ErrEmptyRequirement},
		"empty scope token":              {query: "scope=a++b", wantErr: oauth.ErrEmptyRequirement},
		"repeated scope":                 {query: "scope=a&scope=a", wantErr: oauth.ErrRepeated},
		"invalid percent encoding":       {query: "scope=%zz", wantErr: oauth.ErrMalformed},
		"NUL":                            {query: "audience=a%00", wantErr: oauth.ErrMalformed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := oauth.ParseRequirements(tc.query)
			testkit.Diff(t, "error", tc.wantErr, err, cmpopts.EquateErrors())
			testkit.Diff(t, "requirements", tc.want, got)
		})
	}
}

func TestParseRequirementsPath(t *testing.T) {
	want := oauth.Requirements{Scope: "orders.read", Audience: "https://orders.example.com/~?"}
	encoded := encodeRequirements("audience=https://orders.example.com/~?&scope=orders.read")
	tests := map[string]struct {
		path    string
		wantErr error
	}{
		"requirements only":                {path: "require/" + encoded},
		"second require":                   {path: "require/" + encoded + "/require/" + encodeRequirements("scope=x")},
		"dot segments":                     {path: "require/" + encoded + "/../../require/" + encodeRequirements("scope=x")},
		"no require":                       {path: "orders/1", wantErr: oauth.ErrRequirementsPath},
		"empty requirements":               {path: "require/", wantErr: oauth.ErrRequirementsPath},
		"empty requirements, then a path":  {path: "require//" + encoded, wantErr: oauth.ErrRequirementsPath},
		"require is case-sensitive":        {path: "Require/" + encoded, wantErr: oauth.ErrRequirementsPath},
		"escaped slash after requirements": {path: "require/" + encoded + "%2Forders", wantErr: oauth.ErrRequirementsPath},
		"padding":                          {path: "require/" + base64.URLEncoding.EncodeToString([]byte("scope=ab")) + "/", wantErr: oauth.ErrRequirementsPath},
		"unused bits":                      {path: "require/" + encodeRequirements("scope=a")[:9] + "R", wantErr: oauth.ErrRequirementsPath},
		"unknown requirement":              {path: "require/" + encodeRequirements("scopes=a"), wantErr: oauth.ErrUnknownRequirement},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := oauth.ParseRequirementsPath(tc.path)
			testkit.Diff(t, "error", tc.wantErr, err, cmpopts.EquateErrors())
			if err == nil && got != want || err != nil && got != (oauth.Requirements{}) {
				t.Errorf("got %+v, want %+v or an error", got, want)
			}
		})
	}
}

// Whatever a caller appends, the requirements stay the same. They are those of the query form.
func FuzzParseRequirementsPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"audience=a&scope=b+c", "/orders"},
		{"scope=a", "/../require/" + encodeRequirements("scope=b")},
		{"scope=a&audience=", "/"},
		{"scopes=a", "/require/"},
		{"&", "//"},
		{"claims=a+b_c&dpop=original", "/?dpop=forwarded"},
		{"claims=a_b+a-b", "/"},
		{"scope=%zz", "/%2f"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, query, appended string) {
		want, wantErr := oauth.ParseRequirements(query)
		if query == "" {
			wantErr = oauth.ErrRequirementsPath
		}
		got, err := oauth.ParseRequirementsPath("require/" + encodeRequirements(query) + "/" + strings.TrimPrefix(appended, "/"))
		if !errors.Is(err, wantErr) || got != want {
			t.Fatalf("got %+v, %v, want %+v, %v", got, err, want, wantErr)
		}
		if err != nil {
			return
		}
		if got == (oauth.Requirements{}) {
			t.Fatalf("%q requires nothing", query)
		}
		form := url.Values{}
		for name, value := range map[string]string{"scope": got.Scope, "audience": got.Audience, "claims": got.Claims, "dpop": string(got.DPoP)} {
			if value != "" {
				form.Set(name, value)
			}
		}
		if again, err := oauth.ParseRequirements(form.Encode()); err != nil || again != got {
			t.Fatalf("the canonical form %q is parsed as %+v, %v, want %+v", form.Encode(), again, err, got)
		}
	})
}

// claimNames returns n names, separated by encoded spaces.
func claimNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = "claim" + strconv.Itoa(i)
	}
	return strings.Join(names, "+")
}

func encodeRequirements(query string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(query))
}

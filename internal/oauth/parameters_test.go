package oauth_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

func TestParseParameters(t *testing.T) {
	const grant = "grant_type=client_credentials"
	tests := map[string]struct {
		query, body string
		want        oauth.Parameters
		wantErr     error
	}{
		"in the query and the body":                        {query: grant, body: "scope=a+b", want: oauth.Parameters{GrantType: "client_credentials", Scope: "a b"}},
		"all in the query":                                 {query: grant + "&scope=a&audience=x&resource=y", want: oauth.Parameters{GrantType: "client_credentials", Scope: "a", Audiences: []string{"x"}, Resources: []string{"y"}}},
		"credentials in the body":                          {body: "client_id=a&client_secret=b&client_assertion=c&client_assertion_type=d", want: oauth.Parameters{ClientID: "a", ClientSecret: "b", ClientAssertion: "c", ClientAssertionType: "d"}},
		"percent-encoded value":                            {body: "scope=a%20b%2Bc", want: oauth.Parameters{Scope: "a b+c"}},
		"resource repeats":                                 {query: "resource=a&resource=b", body: "resource=a", want: oauth.Parameters{Resources: []string{"a", "b", "a"}}},
		"audience repeats":                                 {query: "audience=a", body: "audience=b", want: oauth.Parameters{Audiences: []string{"a", "b"}}},
		"token exchange":                                   {body: "subject_token=a&subject_token_type=b&actor_token=c&actor_token_type=d&requested_token_type=e", want: oauth.Parameters{SubjectToken: "a", SubjectTokenType: "b", ActorToken: "c", ActorTokenType: "d", RequestedTokenType: "e"}},
		"subject token twice":                              {body: "subject_token=a&subject_token=b", wantErr: oauth.ErrRepeated},
		"subject_token in the query":                       {query: "subject_token=a", wantErr: oauth.ErrCredentialsQuery},
		"actor_token in the query":                         {query: "actor_token=a", wantErr: oauth.ErrCredentialsQuery},
		"empty values are omitted":                         {query: "scope=&audience&resource=&grant_type="},
		"empty value and another value":                    {query: "scope=", body: "scope=a", want: oauth.Parameters{Scope: "a"}},
		"empty credentials in the query":                   {query: "client_secret=&client_id&access_token=&client_assertion="},
		"unknown parameter":                                {query: "foo=bar&" + grant + "&foo=baz", want: oauth.Parameters{GrantType: "client_credentials"}},
		"names are case-sensitive":                         {body: "Scope=a&GRANT_TYPE=b"},
		"extra separators":                                 {body: "&&scope=a&&", want: oauth.Parameters{Scope: "a"}},
		"a semicolon is not a separator":                   {body: "scope=a;audience=b", want: oauth.Parameters{Scope: "a;audience=b"}},
		"maximum number of parameters":                     {query: strings.Repeat("a=1&", 16), body: strings.Repeat("b=1&", 16)},
		"twice in the body":                                {body: "scope=a&scope=a", wantErr: oauth.ErrRepeated},
		"secret twice":                                     {body: "client_secret=a&client_secret=b", wantErr: oauth.ErrRepeated},
		"client_secret in the query":                       {query: grant + "&client_secret=a", wantErr: oauth.ErrCredentialsQuery},
		"access_token in the query":                        {query: "access_token=a", wantErr: oauth.ErrCredentialsQuery},
		"percent-encoded name in the query":                {query: "client%5fsecret=a", wantErr: oauth.ErrCredentialsQuery},
		"access_token in the body":                         {body: "access_token=a"},
		"invalid percent encoding in a value":              {query: "scope=%zz", wantErr: oauth.ErrMalformed},
		"invalid percent encoding in an unknown parameter": {body: "foo=%", wantErr: oauth.ErrMalformed},
		"invalid UTF-8":                                    {body: "scope=%ff", wantErr: oauth.ErrMalformed},
		"invalid UTF-8 in a name":                          {query: "%c3=a", wantErr: oauth.ErrMalformed},
		"NUL":                                              {body: "scope=a%00b", wantErr: oauth.ErrMalformed},
		"one parameter too many":                           {query: strings.Repeat("a=1&", 16), body: strings.Repeat("b=1&", 17), wantErr: oauth.ErrTooMany},
		"too many empty parameters":                        {body: strings.Repeat("a&", 33), wantErr: oauth.ErrTooMany},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := oauth.ParseParameters(tc.query, tc.body)
			testkit.Diff(t, "error", tc.wantErr, err, cmpopts.EquateErrors())
			testkit.Diff(t, "parameters", tc.want, got)
		})
	}
}

// A secret in the query is exposed even if the request is malformed.
func TestExposesCredentials(t *testing.T) {
	tests := map[string]struct {
		query string
		want  bool
	}{
		"no credentials":                    {"grant_type=client_credentials&scope=client_secret", false},
		"secret":                            {"grant_type=client_credentials&client_secret=a", true},
		"ID":                                {"client_id=a", true},
		"assertion":                         {"client_assertion=a", true},
		"grant assertion":                   {"assertion=a", true},
		"access token":                      {"access_token=a", true},
		"percent-encoded name":              {"client%5fsecret=a", true},
		"after an invalid percent encoding": {"scope=%zz&client_secret=a", true},
		"with an invalid percent encoding":  {"client_secret=%zz", true},
		"empty values":                      {"client_secret=&client_id&access_token=", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "exposed", tc.want, oauth.ExposesCredentials(tc.query))
		})
	}
}

// Accepted parameters are valid UTF-8 without NUL and have no credentials from the query. They are
// parsed to the same values when they are sent in canonical form in the body.
func FuzzParseParameters(f *testing.F) {
	for _, seed := range [][2]string{
		{"grant_type=client_credentials", ""},
		{"", "grant_type=client_credentials&scope=a+b&audience=x&client_id=a&client_secret=%25"},
		{"resource=a&resource=b", "resource=https%3A%2F%2Fx"},
		{"client_secret=a", "client_secret=b"},
		{"client%5Fid=a", ""},
		{"scope=", "scope=a"},
		{"a&&=b&%zz", "\xff=%00"},
		{strings.Repeat("a=1&", 33), ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, query, body string) {
		got, err := oauth.ParseParameters(query, body)
		exposed := oauth.ExposesCredentials(query)
		if err == nil && exposed || errors.Is(err, oauth.ErrCredentialsQuery) && !exposed {
			t.Fatalf("error %v, credentials exposed: %t", err, exposed)
		}
		if err != nil {
			if _, ok := errors.AsType[*oauth.Error](err); !ok {
				t.Fatalf("error %v is not an *oauth.Error", err)
			}
			testkit.Diff(t, "rejected the request but returned parameters", oauth.Parameters{}, got)
			return
		}
		for _, s := range append(slices.Concat(got.Resources, got.Audiences), got.GrantType, got.Scope, got.SubjectToken, got.ClientID, got.ClientSecret, got.ClientAssertion, got.Assertion) {
			if strings.ContainsRune(s, 0) || strings.ToValidUTF8(s, "") != s {
				t.Fatalf("accepted %q", s)
			}
		}
		alone, err := oauth.ParseParameters(query, "")
		if err != nil {
			t.Fatalf("accepted the query with a body but rejected it without one: %v", err)
		}
		if alone.ClientID != "" || alone.ClientSecret != "" || alone.ClientAssertion != "" || alone.Assertion != "" || alone.SubjectToken != "" || alone.ActorToken != "" {
			t.Fatal("the query set credentials")
		}
		again, err := oauth.ParseParameters("", canonical(got))
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("parsing the canonical form: %v (-want +got):\n%s", err, diff)
		}
	})
}

// canonical returns the parameters in form encoding, sorted by name.
func canonical(p oauth.Parameters) string {
	form := url.Values{"resource": p.Resources, "audience": p.Audiences}
	for name, value := range map[string]string{
		"grant_type": p.GrantType, "scope": p.Scope,
		"client_id": p.ClientID, "client_secret": p.ClientSecret, "client_assertion": p.ClientAssertion,
		"client_assertion_type": p.ClientAssertionType, "assertion": p.Assertion,
		"subject_token": p.SubjectToken, "subject_token_type": p.SubjectTokenType,
		"actor_token": p.ActorToken, "actor_token_type": p.ActorTokenType, "requested_token_type": p.RequestedTokenType,
	} {
		if value != "" {
			form.Set(name, value)
		}
	}
	return form.Encode()
}

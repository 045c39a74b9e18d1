package oauth_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
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
		"same value in the query and the body":             {query: grant, body: grant, want: oauth.Parameters{GrantType: "client_credentials"}},
		"same value in different encodings":                {query: "scope=a%20b", body: "scope=a+b", want: oauth.Parameters{Scope: "a b"}},
		"same type of an exchange":                         {query: "subject_token_type=a&requested_token_type=b", body: "subject_token_type=a&requested_token_type=b", want: oauth.Parameters{SubjectTokenType: "a", RequestedTokenType: "b"}},
		"different grant types":                            {query: grant, body: "grant_type=password", wantErr: oauth.ErrDifferent},
		"different scopes":                                 {query: "scope=a+b", body: "scope=a", wantErr: oauth.ErrDifferent},
		"different assertion types":                        {query: "client_assertion_type=a", body: "client_assertion_type=b", wantErr: oauth.ErrDifferent},
		"twice in the query":                               {query: grant + "&" + grant, wantErr: oauth.ErrRepeated},
		"twice in the query, and in the body":              {query: grant + "&" + grant, body: grant, wantErr: oauth.ErrRepeated},
		"in the query, and twice in the body":              {query: grant, body: grant + "&" + grant, wantErr: oauth.ErrRepeated},
		"in the query, and two values in the body":         {query: grant, body: grant + "&grant_type=password", wantErr: oauth.ErrRepeated},
		"token in the query":                               {query: "token=a&token=b", body: "token=c", want: oauth.Parameters{Token: "c"}},
		"secret in the query and the body":                 {query: "client_secret=a", body: "client_secret=a", wantErr: oauth.ErrCredentialsQuery},
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

// The error about a parameter names it and says where it was, but doesn't repeat its value.
func TestErrorsNameTheParameter(t *testing.T) {
	tests := map[string]struct{ query, body, want string }{
		"repeated":      {body: "scope=canary&scope=canary", want: "The parameter scope must not be repeated. Send it once."},
		"encoded name":  {query: "grant%5ftype=canary&grant_type=canary", want: "The parameter grant_type must not be repeated. Send it once."},
		"two values":    {query: "grant_type=canary", body: "grant_type=b", want: "The parameter grant_type has different values in the query and in the body. Send it in one place, or the same value in both."},
		"a secret":      {body: "client_secret=canary&client_secret=b", want: "The parameter client_secret must not be repeated. Send it once."},
		"a requirement": {query: "audience=canary&audience=b", want: "The parameter audience must not be repeated. Send it once."},
		"a flag":        {query: "delegated=true&delegated=true", want: "The parameter delegated must not be repeated. Send it once."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := oauth.ParseParameters(tc.query, tc.body)
			if err == nil {
				_, err = oauth.ParseRequirements(tc.query)
			}
			rejection, ok := errors.AsType[*oauth.Error](err)
			if !ok {
				t.Fatalf("got %v, want an error", err)
			}
			testkit.Diff(t, "description", tc.want, rejection.Description)
			if body := string(rejection.Body()); rejection.Status != 400 || rejection.Code != "invalid_request" || !strings.Contains(body, tc.want) {
				t.Errorf("got %d: %s", rejection.Status, body)
			}
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
// parsed to the same values when they are sent in canonical form in the body, and also when the query
// contains what it may contain of them. Another value in the query is rejected.
func FuzzParseParameters(f *testing.F) {
	for _, seed := range [][2]string{
		{"grant_type=client_credentials", ""},
		{"", "grant_type=client_credentials&scope=a+b&audience=x&client_id=a&client_secret=%25"},
		{"resource=a&resource=b", "resource=https%3A%2F%2Fx"},
		{"grant_type=a&scope=b", "scope=b&grant_type=a&token=c"},
		{"grant_type=a", "grant_type=b"},
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
		once := got
		once.Audiences, once.Resources = nil, nil // they may be repeated
		public := oauth.Parameters{
			GrantType: got.GrantType, Scope: got.Scope, ClientAssertionType: got.ClientAssertionType,
			SubjectTokenType: got.SubjectTokenType, ActorTokenType: got.ActorTokenType, RequestedTokenType: got.RequestedTokenType,
		}
		again, err = oauth.ParseParameters(canonical(public), canonical(once))
		if diff := cmp.Diff(once, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("parsing the same values in the query and the body: %v (-want +got):\n%s", err, diff)
		}
		public.Scope += "x"
		if _, err = oauth.ParseParameters(canonical(public), canonical(once)); (once.Scope != "") != errors.Is(err, oauth.ErrDifferent) {
			t.Fatalf("scope %q in the query and %q in the body: %v", public.Scope, once.Scope, err)
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
		"token": p.Token,
	} {
		if value != "" {
			form.Set(name, value)
		}
	}
	return form.Encode()
}

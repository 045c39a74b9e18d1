package oauth

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Limits on the size of a request.
const (
	// MaxParameters is the maximum number of parameters in the query and the body together.
	MaxParameters = 32
	// MaxBodyBytes is the maximum size of the form body.
	MaxBodyBytes = 8 << 10
	// MaxTokenBytes is the maximum size of an access token. It leaves room for other parameters in MaxBodyBytes,
	// and for other headers in the 8 KiB that many servers allow for all of them.
	MaxTokenBytes = 6 << 10
	// MaxHeaderBytes is the maximum size of the request line and the headers.
	MaxHeaderBytes = 16 << 10
)

// Parameters are the known parameters of a client's request, from the query or the body. Parameters
// without a value are treated as omitted, and unknown ones are ignored (RFC 6749 §3.2).
type Parameters struct {
	GrantType           string
	Scope               string
	Audiences           []string // may be repeated (RFC 8693 §2.1), or separated by one space
	Resources           []string // may be repeated (RFC 8707 §2)
	ClientID            string
	ClientSecret        string
	ClientAssertion     string
	ClientAssertionType string
	// Assertion is the authorization grant of RFC 7523 §2.1.
	Assertion string
	// The following are for token exchange (RFC 8693 §2.1).
	SubjectToken       string
	SubjectTokenType   string
	ActorToken         string
	ActorTokenType     string
	RequestedTokenType string
	// Token is the token to introspect (RFC 7662 §2.1). It is ignored in a query.
	Token string
}

// ParseParameters parses the query and the form body of a token request. It parses them separately,
// so that neither can hide or replace a parameter in the other.
//
// A token endpoint's URL may have a query, which clients keep (RFC 6749 §3.2). Many clients have a URL with
// grant_type in it and send grant_type in the body too. A parameter must not be included more than once,
// because servers and proxies then disagree about which value counts. The same value in the query and in
// the body leaves no doubt, so it is one parameter.
//
// Errors: ErrMalformed, ErrTooMany, ErrRepeated, ErrDifferent, and ErrCredentialsQuery if the query
// contains client credentials or an access token.
func ParseParameters(query, body string) (Parameters, error) {
	var p Parameters
	n := 0
	if err := p.parse(query, &n, nil); err != nil {
		return Parameters{}, err
	}
	inQuery := p
	if err := p.parse(body, &n, &inQuery); err != nil {
		return Parameters{}, err
	}
	return p, nil
}

// parse parses the query, or the body if inQuery isn't nil. It then contains the parameters of the query
// that haven't been in the body yet.
func (p *Parameters) parse(form string, n *int, inQuery *Parameters) error {
	for form != "" {
		var pair string
		pair, form, _ = strings.Cut(form, "&")
		if pair == "" {
			continue
		}
		if *n++; *n > MaxParameters {
			return ErrTooMany
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, okName := unescape(rawName)
		value, okValue := unescape(rawValue)
		if !okName || !okValue || !cleanText(name) || !cleanText(value) {
			return ErrMalformed
		}
		if value == "" {
			continue
		}
		if inQuery == nil && neverInQuery(name) {
			return ErrCredentialsQuery
		}
		if inQuery == nil && name == "token" {
			continue
		}
		if err := p.set(name, value, inQuery); err != nil {
			return err
		}
	}
	return nil
}

func (p *Parameters) set(name, value string, inQuery *Parameters) error {
	switch name {
	case "audience":
		// No audience contains a space. Some servers expect a list of them, and their clients send it.
		// Two consecutive spaces produce an empty audience, which is never granted.
		p.Audiences = append(p.Audiences, strings.Split(value, " ")...)
		return nil
	case "resource":
		p.Resources = append(p.Resources, value)
		return nil
	}
	field := p.field(name)
	switch {
	case field == nil:
		return nil
	case *field == "":
		*field = value
		return nil
	case inQuery == nil || *inQuery.field(name) == "":
		return ErrRepeated.about(name)
	case *field != value:
		return ErrDifferent.about(name)
	}
	*inQuery.field(name) = ""
	return nil
}

// field returns the field of a parameter that must not be repeated, or nil if the parameter is unknown.
func (p *Parameters) field(name string) *string {
	switch name {
	case "grant_type":
		return &p.GrantType
	case "scope":
		return &p.Scope
	case "client_id":
		return &p.ClientID
	case "client_secret":
		return &p.ClientSecret
	case "client_assertion":
		return &p.ClientAssertion
	case "client_assertion_type":
		return &p.ClientAssertionType
	case "assertion":
		return &p.Assertion
	case "subject_token":
		return &p.SubjectToken
	case "subject_token_type":
		return &p.SubjectTokenType
	case "actor_token":
		return &p.ActorToken
	case "actor_token_type":
		return &p.ActorTokenType
	case "requested_token_type":
		return &p.RequestedTokenType
	case "token":
		return &p.Token
	}
	return nil
}

// ExposesCredentials reports whether a query contains client credentials or an access token, even
// if the rest of the query is malformed.
func ExposesCredentials(query string) bool {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		if name, ok := unescape(name); ok && value != "" && neverInQuery(name) {
			return true
		}
	}
	return false
}

// neverInQuery reports whether a parameter must not be in a URL, because proxies log URLs and
// browsers store them (RFC 6749 §2.3.1, RFC 9700 §4.3.2).
func neverInQuery(name string) bool {
	switch name {
	case "client_id", "client_secret", "client_assertion", "assertion", "access_token", "subject_token", "actor_token":
		return true
	}
	return false
}

// unescape decodes application/x-www-form-urlencoded text once.
func unescape(s string) (string, bool) {
	if !strings.ContainsAny(s, "%+") {
		return s, true
	}
	s, err := url.QueryUnescape(s)
	return s, err == nil
}

func cleanText(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

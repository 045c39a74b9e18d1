package oauth

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Limits on what a token request may hold.
const (
	// MaxParameters counts query and body together.
	MaxParameters = 32
	// MaxBodyBytes bounds the form body.
	MaxBodyBytes = 8 << 10
	// MaxRequestLineBytes bounds method, target and version with the spaces between them.
	MaxRequestLineBytes = 4 << 10
	// MaxHeaderBytes bounds the names and values of all headers.
	MaxHeaderBytes = 16 << 10
)

// Parameters are the known parameters of a client's request, wherever they stood. A
// parameter without a value counts as left out, and unknown ones are ignored (RFC 6749 §3.2).
type Parameters struct {
	GrantType           string
	Scope               string
	Audience            string
	Resources           []string // RFC 8707 §2: may repeat
	ClientID            string
	ClientSecret        string
	ClientAssertion     string
	ClientAssertionType string
	// Token is what introspection is asked about (RFC 7662 §2.1). In a query it is ignored.
	Token string
}

// ParseParameters reads the query and the form body of a token request, each for
// itself: nothing in one can hide or replace something in the other.
//
// Errors: ErrMalformed, ErrTooMany, ErrRepeated, and ErrCredentialsQuery for
// client credentials or an access token in the query.
func ParseParameters(query, body string) (Parameters, error) {
	var p Parameters
	n := 0
	if err := p.parse(query, &n, true); err != nil {
		return Parameters{}, err
	}
	if err := p.parse(body, &n, false); err != nil {
		return Parameters{}, err
	}
	return p, nil
}

func (p *Parameters) parse(form string, n *int, inQuery bool) error {
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
		if inQuery && neverInQuery(name) {
			return ErrCredentialsQuery
		}
		if inQuery && name == "token" {
			continue
		}
		if err := p.set(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (p *Parameters) set(name, value string) error {
	var field *string
	switch name {
	case "grant_type":
		field = &p.GrantType
	case "scope":
		field = &p.Scope
	case "audience":
		field = &p.Audience
	case "client_id":
		field = &p.ClientID
	case "client_secret":
		field = &p.ClientSecret
	case "client_assertion":
		field = &p.ClientAssertion
	case "token":
		field = &p.Token
	case "client_assertion_type":
		field = &p.ClientAssertionType
	case "resource":
		p.Resources = append(p.Resources, value)
		return nil
	default:
		return nil
	}
	if *field != "" {
		return ErrRepeated
	}
	*field = value
	return nil
}

// Requirements are what a gateway asks of a token beyond that it is valid.
type Requirements struct {
	Scope    string // scope tokens joined with spaces; empty: none
	Audience string // empty: any
}

// ParseRequirements reads the query of a verification: "scope" and "audience". Whatever
// else stands there is ignored, an access token too (RFC 6750 §2.3).
//
// Errors: ErrMalformed, ErrTooMany, ErrRepeated.
func ParseRequirements(query string) (Requirements, error) {
	var p Parameters
	n := 0
	if err := p.parse(query, &n, false); err != nil {
		return Requirements{}, err
	}
	return Requirements{Scope: p.Scope, Audience: p.Audience}, nil
}

// ExposesCredentials reports whether a query holds a client's credentials or an access
// token, however malformed the rest of it is.
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

// neverInQuery names what must never stand in a URL, which proxies log and browsers keep
// (RFC 6749 §2.3.1, RFC 9700 §4.3.2).
func neverInQuery(name string) bool {
	switch name {
	case "client_id", "client_secret", "client_assertion", "access_token":
		return true
	}
	return false
}

// unescape undoes the encoding of application/x-www-form-urlencoded once.
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

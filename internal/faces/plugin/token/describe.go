package token

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"

	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// describeToken writes the token response with the header and claims of the token, but not the
// token itself. Claim values are written as JSON.
func describeToken(out io.Writer, endpoint string, token *oauth2.Token) error {
	header, claims, err := decode(token.AccessToken)
	if err != nil {
		return err
	}
	rows := [][]string{{"endpoint:", endpoint}, {"token_type:", token.TokenType}}
	if seconds, ok := token.Extra("expires_in").(float64); ok {
		rows = append(rows, []string{"expires_in:", fmt.Sprintf("%.0f", seconds)})
	}
	if scope, ok := token.Extra("scope").(string); ok {
		rows = append(rows, []string{"scope:", scope})
	}
	rows = append(rows,
		[]string{"header:"}, []string{"  alg:", strconv.QuoteToASCII(header.Algorithm)}, []string{"  kid:", strconv.QuoteToASCII(header.KeyID)},
		[]string{"claims:"},
	)
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		rows = append(rows, []string{"  " + name + ":", string(untrusted.EscapeJSON(claims[name])) + instant(name, claims[name])})
	}
	w := terminal.NewWriter(out)
	w.Aligned(rows)
	return w.Err()
}

// decode parses a token without verifying it. Only resource servers need to verify tokens.
func decode(accessToken string) (jose.Header, map[string]json.RawMessage, error) {
	algorithms := make([]jose.SignatureAlgorithm, 0, len(signingkey.Algorithms))
	for _, algorithm := range signingkey.Algorithms {
		algorithms = append(algorithms, jose.SignatureAlgorithm(algorithm))
	}
	parsed, err := jwt.ParseSigned(accessToken, algorithms)
	if err != nil {
		return jose.Header{}, nil, fmt.Errorf("parsing the access token as a JWT: %w", err)
	}
	var claims map[string]json.RawMessage
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return jose.Header{}, nil, fmt.Errorf("parsing the claims of the access token: %w", err)
	}
	return parsed.Headers[0], claims, nil
}

// instant formats a NumericDate claim (RFC 7519, section 2) as an RFC 3339 comment. It returns an
// empty string for any other claim.
func instant(name string, value json.RawMessage) string {
	switch name {
	case "exp", "iat", "nbf":
		if seconds, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return time.Unix(seconds, 0).UTC().Format("  # " + time.RFC3339)
		}
	}
	return ""
}

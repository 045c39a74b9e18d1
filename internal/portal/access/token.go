package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// MaxTokenLength bounds the tokens that a session can hold, in bytes.
const MaxTokenLength = 6 << 10

var (
	// ErrNoToken says that there is no token at all.
	ErrNoToken = errors.New("there is no token")
	// ErrTokenTooLong says that a token exceeds MaxTokenLength.
	ErrTokenTooLong = errors.New("the token is too long for a session")
	// ErrTokenForm says that a token has characters that no bearer token has (RFC 6750, section 2.1).
	ErrTokenForm = errors.New("the token has characters that no token has")
)

// CheckToken tells whether something can be a bearer token at all.
func CheckToken(token string) error {
	switch {
	case token == "":
		return ErrNoToken
	case len(token) > MaxTokenLength:
		return ErrTokenTooLong
	case strings.Trim(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=") != "":
		return ErrTokenForm
	}
	return nil
}

// expiry returns when a token ends by its own word: the exp claim of a JWT (RFC 7519, section 4.1.4).
// It is zero for any other token. Nobody checks the signature here, for the API server does so
// with each request.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}

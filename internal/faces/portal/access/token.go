package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxTokenLength is the maximum token length in bytes. Longer tokens wouldn't fit in the cookies.
const MaxTokenLength = 6 << 10

var (
	// ErrNoToken means that the token is empty.
	ErrNoToken = errors.New("token is missing")
	// ErrTokenTooLong means that a token exceeds MaxTokenLength.
	ErrTokenTooLong = fmt.Errorf("token must not exceed %d bytes", MaxTokenLength)
	// ErrTokenForm means that a token contains characters that are not allowed in a bearer token
	// (RFC 6750, section 2.1).
	ErrTokenForm = errors.New("token contains invalid characters")
)

// CheckToken returns ErrNoToken, ErrTokenTooLong or ErrTokenForm if token can't be a bearer token.
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

// tokenExpiry returns the expiration time in the exp claim of a JWT (RFC 7519, section 4.1.4). It
// returns zero for any other token. It doesn't verify the signature, because the API server does so
// for every request.
func tokenExpiry(token string) time.Time {
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

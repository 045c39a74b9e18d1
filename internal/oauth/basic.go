package oauth

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// Credentials are what a client authenticates with: its id and its secret.
type Credentials struct {
	ClientID     string
	ClientSecret string
}

// ParseBasic reads the value of an Authorization header with the Basic scheme of
// RFC 7617: the scheme in any case, one or more spaces, Base64 with or without
// padding, split at the first colon, and each half form-urldecoded once, as
// RFC 6749 §2.3.1 has clients encode it.
//
// It reports false for anything else: another scheme, broken Base64 or percent
// escapes, no colon, an empty id or secret, invalid UTF-8, control characters.
func ParseBasic(header string) (Credentials, bool) {
	encoded, ok := cutScheme(header, "Basic")
	if !ok || strings.ContainsAny(encoded, "\r\n") { // the decoder passes over line breaks
		return Credentials{}, false
	}
	decoded, err := base64.RawStdEncoding.Strict().DecodeString(trimPadding(encoded))
	if err != nil {
		return Credentials{}, false
	}
	rawID, rawSecret, ok := strings.Cut(string(decoded), ":")
	if !ok {
		return Credentials{}, false
	}
	id, ok := unescapeCredential(rawID)
	if !ok {
		return Credentials{}, false
	}
	secret, ok := unescapeCredential(rawSecret)
	if !ok {
		return Credentials{}, false
	}
	return Credentials{ClientID: id, ClientSecret: secret}, true
}

// IsBasic reports whether an Authorization header names the Basic scheme,
// whatever follows it.
func IsBasic(header string) bool {
	_, ok := cutScheme(header, "Basic")
	return ok
}

// ValidCredential reports whether s may stand as a client id or secret: not empty,
// UTF-8, and free of control characters.
func ValidCredential(s string) bool {
	if s == "" || !utf8.ValidString(s) {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return true
}

func cutScheme(header, scheme string) (rest string, ok bool) {
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", false
	}
	rest = header[len(scheme):]
	if rest != "" && rest[0] != ' ' {
		return "", false
	}
	return strings.TrimLeft(rest, " "), true
}

// trimPadding takes off the padding of a whole number of Base64 quanta, so that
// padded and unpadded input decode alike and stray padding still fails.
func trimPadding(encoded string) string {
	if len(encoded)%4 != 0 {
		return encoded
	}
	if s, ok := strings.CutSuffix(encoded, "=="); ok {
		return s
	}
	return strings.TrimSuffix(encoded, "=")
}

func unescapeCredential(raw string) (string, bool) {
	s, ok := unescape(raw)
	return s, ok && ValidCredential(s)
}

package oauth

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// Credentials are a client ID and client secret.
type Credentials struct {
	ClientID     string
	ClientSecret string
	// UndecodedSecret is the secret of a client that doesn't form-urlencode it for HTTP Basic. It is
	// empty if it doesn't differ from ClientSecret, and with other authentication methods.
	UndecodedSecret string
}

// Secrets returns the secrets that the client may have sent, the most likely one first.
func (c *Credentials) Secrets() []string {
	if c.UndecodedSecret == "" {
		return []string{c.ClientSecret}
	}
	return []string{c.ClientSecret, c.UndecodedSecret}
}

// ParseBasic parses the value of an Authorization header with the Basic scheme of RFC 7617: the
// scheme in any case, one or more spaces, and Base64 with or without padding. It splits the decoded
// text at the first colon and form-urldecodes each half once, because RFC 6749 §2.3.1 requires
// clients to encode both halves.
//
// Many clients don't encode the secret, for example curl. If what was sent can be an encoded secret or
// one that wasn't encoded, the result has both. If it contains a character that form encoding replaces,
// or can't be decoded, the result has only what was sent. The client ID is always decoded, because it
// can't contain percent and plus signs.
//
// It reports false for anything else: another scheme, invalid Base64, invalid percent encoding in
// the ID, no colon, an empty ID or secret, invalid UTF-8, or control characters.
func ParseBasic(header string) (Credentials, bool) {
	encoded, ok := cutBasic(header)
	if !ok || strings.ContainsAny(encoded, "\r\n") { // the decoder ignores line breaks
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
	secret, decodable := unescapeCredential(rawSecret)
	switch {
	case !ValidCredential(rawSecret):
		return Credentials{}, false
	case !decodable, secret == rawSecret, strings.ContainsFunc(rawSecret, formEncodingReplaces):
		return Credentials{ClientID: id, ClientSecret: rawSecret}, true
	}
	return Credentials{ClientID: id, ClientSecret: secret, UndecodedSecret: rawSecret}, true
}

// formEncodingReplaces reports whether form-encoded text can't contain r. Encoders differ only in the
// punctuation that they keep: the URL Standard keeps "*-._", RFC 3986 also "~", encodeURIComponent
// also "!'()", and Python's urllib.parse.quote also "/".
func formEncodingReplaces(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("%+-._~*!'()/", r)
}

// IsBasic reports whether an Authorization header has the Basic scheme, even if the rest is
// malformed.
func IsBasic(header string) bool {
	_, ok := cutBasic(header)
	return ok
}

// ValidCredential reports whether s can be a client ID or client secret: it must not be empty, must
// be UTF-8, and must not contain ASCII control characters.
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

func cutBasic(header string) (rest string, ok bool) {
	const scheme = "Basic"
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", false
	}
	rest = header[len(scheme):]
	if rest != "" && rest[0] != ' ' {
		return "", false
	}
	return strings.TrimLeft(rest, " "), true
}

// trimPadding removes the padding of a whole number of Base64 quanta. Padded and unpadded input
// then decode to the same bytes, and misplaced padding still fails.
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

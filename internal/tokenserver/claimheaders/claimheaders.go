// Package claimheaders writes claims of a token into response headers, from which a gateway hands
// them to the API behind it.
package claimheaders

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

// Set sets the header of each claim in names, which are separated by one space. payload contains the
// claims of a token as JSON. A claim that the token doesn't have, or that isn't a text, an integer or
// a list of texts, gets an empty value: the gateway then still replaces a header that the caller sent.
func Set(header http.Header, names string, payload []byte) {
	var claims map[string]json.RawMessage
	if json.Unmarshal(payload, &claims) != nil {
		claims = nil
	}
	for name := range strings.SplitSeq(names, " ") {
		header.Set(oauth.ClaimHeader(name), encode(claims[name]))
	}
}

// encode returns the value of a header. A text has every byte percent-encoded (RFC 3986 §2.1) that
// isn't a visible ASCII character, and also "%" and ",". The items of a list are joined with commas.
func encode(claim json.RawMessage) string {
	var text string
	if json.Unmarshal(claim, &text) == nil {
		return escape(text)
	}
	var texts []string
	if json.Unmarshal(claim, &texts) == nil {
		for i, item := range texts {
			texts[i] = escape(item)
		}
		return strings.Join(texts, ",")
	}
	var integer int64
	if json.Unmarshal(claim, &integer) == nil {
		return string(claim)
	}
	return ""
}

const hexDigits = "0123456789ABCDEF"

func escape(text string) string {
	var escaped strings.Builder
	for _, b := range []byte(text) {
		if b > ' ' && b <= '~' && b != '%' && b != ',' {
			escaped.WriteByte(b)
			continue
		}
		escaped.Write([]byte{'%', hexDigits[b>>4], hexDigits[b&0xf]})
	}
	return escaped.String()
}

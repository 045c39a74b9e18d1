package clientsecret

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// encoding is the Base64 encoding of the PHC string format. It has no padding and only one encoding
// per value.
var encoding = base64.RawStdEncoding.Strict()

// parseParameters parses "m=19456,t=2,p=1".
func parseParameters(s string, names ...string) ([]uint32, bool) {
	fields := strings.Split(s, ",")
	if len(fields) != len(names) {
		return nil, false
	}
	numbers := make([]uint32, len(names))
	for i, name := range names {
		digits, ok := strings.CutPrefix(fields[i], name+"=")
		if !ok {
			return nil, false
		}
		if numbers[i], ok = parseNumber(digits); !ok {
			return nil, false
		}
	}
	return numbers, true
}

// parseNumber parses a decimal number below 2^30 without leading zeros.
func parseNumber(digits string) (uint32, bool) {
	n, err := strconv.ParseUint(digits, 10, 30)
	return uint32(n), err == nil && strconv.FormatUint(n, 10) == digits
}

// decodeWithin decodes Base64 and requires shortest to longest decoded bytes.
func decodeWithin(encoding *base64.Encoding, s string, shortest, longest int) ([]byte, bool) {
	n := encoding.DecodedLen(len(s))
	if n < shortest || n > longest {
		return nil, false
	}
	dst := make([]byte, n)
	return dst, decodeExactly(encoding, dst, s)
}

// decodeExactly decodes Base64 into dst and requires exactly len(dst) bytes.
func decodeExactly(encoding *base64.Encoding, dst []byte, s string) bool {
	// The decoder ignores line breaks, which are not allowed in a PHC string.
	if encoding.DecodedLen(len(s)) != len(dst) || strings.ContainsAny(s, "\r\n") {
		return false
	}
	n, err := encoding.Decode(dst, []byte(s))
	return err == nil && n == len(dst)
}

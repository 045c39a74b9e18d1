package dpop

import (
	"encoding/hex"
	"net/url"
	"strings"
)

// sameURL reports whether a URL is one of the others after normalization.
func sameURL(raw string, others []string) bool {
	normalized, ok := normalize(raw)
	if !ok {
		return false
	}
	for _, other := range others {
		if other, ok := normalize(other); ok && other == normalized {
			return true
		}
	}
	return false
}

// defaultPorts are the supported schemes with the ports that they imply.
var defaultPorts = map[string]string{"https": "443", "http": "80"}

// normalize returns a URL without query and fragment in the normal form of RFC 3986 §6.2.2 and
// §6.2.3, as RFC 9449 §4.3 recommends. It doesn't remove dot segments, because an API that doesn't
// either would process another path than the one that was compared. It reports false for anything
// but an absolute HTTP URL without userinfo.
func normalize(raw string) (string, bool) {
	if end := strings.IndexAny(raw, "?#"); end >= 0 {
		raw = raw[:end]
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || strings.ContainsFunc(rest, notInURL) {
		return "", false
	}
	authority, path := rest, "/"
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		authority, path = rest[:slash], rest[slash:]
	}
	// net/url would decode an escaped slash in some paths, so it parses only what precedes the path.
	parsed, err := url.Parse(scheme + "://" + authority)
	if err != nil || parsed.User != nil || parsed.Hostname() == "" || strings.Contains(authority, "%") {
		return "", false
	}
	port, known := defaultPorts[parsed.Scheme]
	host := parsed.Host
	if parsed.Port() == "" || parsed.Port() == port {
		host = strings.TrimSuffix(host, ":"+parsed.Port())
	}
	path, ok = normalizePath(path)
	return parsed.Scheme + "://" + strings.ToLower(host) + path, ok && known
}

// notInURL reports whether a character can't be in a URL. Servers treat a backslash in different
// ways.
func notInURL(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }

// normalizePath decodes unreserved characters (RFC 3986 §2.3) and writes the other escapes in upper
// case. It reports false for an invalid escape.
func normalizePath(path string) (string, bool) {
	if !strings.Contains(path, "%") {
		return path, true
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b.WriteByte(path[i])
			continue
		}
		if i+2 >= len(path) {
			return "", false
		}
		c, err := hex.DecodeString(path[i+1 : i+3])
		if err != nil {
			return "", false
		}
		if unreserved(c[0]) {
			b.WriteByte(c[0])
		} else {
			b.WriteString(strings.ToUpper(path[i : i+3]))
		}
		i += 2
	}
	return b.String(), true
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

package oauth

import (
	"slices"
	"strings"
)

// ResourceAmong returns the audience that a resource identifies: the same string, or else the first equivalent
// URL. Clients often change the spelling of a URL; all in JavaScript, for example, add a slash to one without a
// path. If there is none, it returns the resource.
func ResourceAmong(audiences []string, resource string) string {
	if slices.Contains(audiences, resource) {
		return resource
	}
	canonical := CanonicalURL(resource)
	for _, audience := range audiences {
		if CanonicalURL(audience) == canonical {
			return audience
		}
	}
	return resource
}

// CanonicalURL returns an HTTP or HTTPS URL with its scheme and host in lower case, without the default port,
// and with "/" as an empty path (RFC 3986 §6.2.2.1, §6.2.3). Equivalent URLs differ in nothing else here: an API
// may distinguish others that a general normalization makes the same. It returns everything else as it is,
// including URLs with user information or with a host that isn't ASCII.
func CanonicalURL(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	var port string
	switch scheme = strings.ToLower(scheme); scheme {
	case "http":
		port = ":80"
	case "https":
		port = ":443"
	default:
		return s
	}
	host, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host, tail = rest[:end], rest[end:]
	}
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return r == '@' || r > '~' }) {
		return s
	}
	host, hasDefault := strings.CutSuffix(strings.ToLower(host), port)
	if !hasDefault {
		host = strings.TrimSuffix(host, ":")
	}
	if !strings.HasPrefix(tail, "/") {
		tail = "/" + tail
	}
	return scheme + "://" + host + tail
}

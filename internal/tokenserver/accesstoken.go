package tokenserver

import (
	"net/http"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

// These are the authentication schemes for access tokens (RFC 6750 §2.1, RFC 9449 §7.1).
const (
	schemeBearer = "Bearer"
	schemeDPoP   = "DPoP"
)

// accessToken returns the token from the Authorization header and its scheme. If bound is false, it
// knows only schemeBearer.
//
// Errors: oauth.ErrTokenMissing; oauth.ErrInvalidToken if there are several such headers. With an
// error, the scheme is schemeBearer.
func accessToken(header http.Header, bound bool) (scheme, token string, err error) {
	authorization := header["Authorization"]
	if len(authorization) > 1 {
		return schemeBearer, "", oauth.ErrInvalidToken
	}
	if len(authorization) == 0 {
		return schemeBearer, "", oauth.ErrTokenMissing
	}
	name, credentials, _ := strings.Cut(authorization[0], " ")
	token = strings.Trim(credentials, " ")
	switch {
	case token == "":
	case strings.EqualFold(name, schemeBearer):
		return schemeBearer, token, nil
	case bound && strings.EqualFold(name, schemeDPoP):
		return schemeDPoP, token, nil
	}
	return schemeBearer, "", oauth.ErrTokenMissing
}

// apiRequest returns the method and the URL of the API request as the gateway states them in the
// given headers. They are empty, so that no proof is for them, if a header is missing or repeated:
// then it isn't certain that the gateway set it. They are also empty if the host contains a character
// that ends it. A gateway may get the host from the caller, who could otherwise turn the path into a
// query, which doesn't count. They are also empty if the URL contains "#". No valid request target
// contains it (RFC 9112 §3.2), but a gateway may forward it, and an API may treat what follows as part
// of the path. In a proof, a fragment doesn't count.
func apiRequest(header http.Header, stated oauth.DPoPHeaders) (method, url string) {
	single := func(name string) (string, bool) {
		values := header[name]
		if len(values) != 1 {
			return "", false
		}
		return values[0], true
	}
	if stated == oauth.DPoPOriginal {
		method, okMethod := single("X-Original-Method")
		url, okURL := single("X-Original-Url")
		_, afterScheme, _ := strings.Cut(url, "://")
		hostEnd := strings.IndexAny(afterScheme, "/?")
		if !okMethod || !okURL || strings.Contains(url, "#") || hostEnd >= 0 && afterScheme[hostEnd] != '/' {
			return "", ""
		}
		return method, url
	}
	method, okMethod := single("X-Forwarded-Method")
	proto, okProto := single("X-Forwarded-Proto")
	host, okHost := single("X-Forwarded-Host")
	uri, okURI := single("X-Forwarded-Uri")
	if !okMethod || !okProto || !okHost || !okURI || strings.ContainsAny(proto+host, `/?#\@`) || !strings.HasPrefix(uri, "/") || strings.Contains(uri, "#") {
		return "", ""
	}
	return method, proto + "://" + host + uri
}

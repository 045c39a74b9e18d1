package tokenserver

import (
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// publicDocuments mounts what a realm publishes: its metadata, its keys, and its status lists. Scripts on
// pages of every origin can read these documents (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol),
// because API explorers and other tools run in browsers.
//
// The documents contain no secrets. Nothing that identifies the caller affects them, and with "*" a script
// can't read the response to a request with cookies or a client certificate. So a page gains only that it
// reads them from the network of its visitor. The other endpoints aren't mounted here: without these
// headers, a page can't read what a client or a gateway gets, and can't send an Authorization header.
type publicDocuments struct {
	mux *http.ServeMux
}

// preflightSeconds is how long a browser may remember the response to a preflight. Chromium doesn't
// remember it for longer.
const preflightSeconds = "7200"

var anyOrigin = []string{"*"}

// mount mounts the document at path. Scripts can also read why there is none.
func (p publicDocuments) mount(path string, document http.HandlerFunc) {
	p.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Access-Control-Allow-Origin"] = anyOrigin
		document(w, r)
	})
	p.mux.HandleFunc("OPTIONS "+path, preflight)
}

// preflight allows every request header, because documents don't depend on them. Browsers ask because of
// MCP-Protocol-Version or traceparent, for example. GET and HEAD need no permission.
func preflight(w http.ResponseWriter, _ *http.Request) {
	header := w.Header()
	header["Access-Control-Allow-Origin"] = anyOrigin
	header.Set("Access-Control-Allow-Headers", "*")
	header.Set("Access-Control-Max-Age", preflightSeconds)
	header.Set("Allow", "GET, HEAD, OPTIONS")
	w.WriteHeader(http.StatusNoContent)
}

// realmOf returns the realm with a name from a path. The error is oauth.ErrNotLoaded, because the realm may exist, or
// oauth.ErrUnknownRealm.
func realmOf(reg *registry.Registry, name string) (*registry.Realm, *oauth.Error) {
	if !reg.Loaded() {
		return nil, oauth.ErrNotLoaded
	}
	realm := reg.Realm(name)
	if realm == nil {
		return nil, oauth.ErrUnknownRealm
	}
	return realm, nil
}

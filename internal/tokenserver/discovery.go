package tokenserver

import (
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// discovery serves the documents that a realm publishes: its keys and its metadata. The documents
// are encoded when the realm changes, not on each request.
type discovery struct {
	registry *registry.Registry
}

func (d *discovery) mount(mux *http.ServeMux) {
	metadata := d.document(func(r *registry.Realm) []byte { return r.Metadata })
	mux.HandleFunc("GET "+oauth.ServerMetadataPath+"/{realm}", metadata)
	mux.HandleFunc("GET /{realm}"+oauth.ServerMetadataPath, metadata)
	mux.HandleFunc("GET /{realm}"+oauth.OpenIDConfigurationPath, d.document(func(r *registry.Realm) []byte { return r.OpenIDConfiguration }))
	mux.HandleFunc("GET /{realm}"+oauth.JWKSPath, d.document(func(r *registry.Realm) []byte { return r.JWKS }))
}

var documentContentType = []string{"application/json"}

func (d *discovery) document(of func(*registry.Realm) []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("realm")
		if !d.registry.Loaded() {
			writeRejection(w, oauth.ErrNotLoaded)
			return
		}
		realm := d.registry.Realm(name)
		if realm == nil {
			writeError(w, oauth.ErrUnknownRealm)
			return
		}
		header := w.Header()
		header["Content-Type"] = documentContentType
		header["Cache-Control"] = realm.Caching
		_, _ = w.Write(of(realm))
	}
}

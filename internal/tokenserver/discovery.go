package tokenserver

import (
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// discovery serves the documents that a realm publishes: its keys, its metadata, and the metadata of
// the APIs that accept its tokens. The documents are encoded when the realm changes, not on each
// request.
type discovery struct {
	registry *registry.Registry
}

func (d *discovery) mount(public publicDocuments) {
	metadata := d.document(func(realm *registry.Realm, _ *http.Request) []byte { return realm.Metadata })
	public.mount(oauth.ServerMetadataPath+"/{realm}", metadata)
	public.mount("/{realm}"+oauth.ServerMetadataPath, metadata)
	public.mount("/{realm}"+oauth.OpenIDConfigurationPath, d.document(func(realm *registry.Realm, _ *http.Request) []byte { return realm.OpenIDConfiguration }))
	keys := d.document(func(realm *registry.Realm, _ *http.Request) []byte { return realm.JWKS })
	public.mount("/{realm}"+oauth.JWKSPath, keys)
	public.mount("/{realm}"+oauth.WellKnownJWKSPath, keys)
	public.mount("/{realm}"+oauth.ListJWKSPath, d.document(func(realm *registry.Realm, _ *http.Request) []byte { return realm.ListJWKS }))
	public.mount("/{realm}"+oauth.ResourceMetadataPath+"{name}", d.document(func(realm *registry.Realm, r *http.Request) []byte {
		return realm.ResourceMetadata(r.PathValue("name"))
	}))
}

var documentContentType = []string{"application/json"}

// document serves the document that of returns. If it returns nil, the document doesn't exist.
func (d *discovery) document(of func(*registry.Realm, *http.Request) []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		realm, rejection := realmOf(d.registry, r.PathValue("realm"))
		if rejection != nil {
			writeError(w, rejection)
			return
		}
		document := of(realm, r)
		if document == nil {
			writeError(w, oauth.ErrNotFound)
			return
		}
		header := w.Header()
		header["Content-Type"] = documentContentType
		header["Cache-Control"] = realm.Caching
		_, _ = w.Write(document)
	}
}

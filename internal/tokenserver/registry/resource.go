package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

// resourceNames is the encoding of a resource in the path. It contains slashes, which a path segment can't.
var resourceNames = base64.RawURLEncoding.Strict()

// resources are the metadata documents (RFC 9728) of the audiences that are URLs of APIs.
type resources struct {
	audiences []string
	documents map[string][]byte // by audience
	urls      map[string]string // of the documents, by audience
}

// newResources prepares a document for each audience that can be a resource identifier: an HTTPS URL
// without fragment (RFC 9728 §1.2).
//
// Errors: those of encoding the documents.
func newResources(issuer string, audiences []string) (resources, error) {
	r := resources{documents: map[string][]byte{}, urls: map[string]string{}}
	for _, audience := range audiences {
		parsed, err := url.Parse(audience)
		if err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil || parsed.Fragment != "" {
			continue
		}
		document, err := json.Marshal(oauth.NewResourceMetadata(audience, issuer))
		if err != nil {
			return resources{}, fmt.Errorf("encoding the metadata of a resource: %w", err)
		}
		r.audiences = append(r.audiences, audience)
		r.documents[audience] = document
		r.urls[audience] = issuer + oauth.ResourceMetadataPath + resourceNames.EncodeToString([]byte(audience))
	}
	return r, nil
}

// ResourceMetadata returns the metadata of the audience that the name in the path identifies, as JSON, or
// nil if the realm has no such audience.
func (r *Realm) ResourceMetadata(name string) []byte {
	resource, err := resourceNames.DecodeString(name)
	if err != nil {
		return nil
	}
	return r.resources.documents[oauth.ResourceAmong(r.resources.audiences, string(resource))]
}

// ResourceMetadataURL returns the URL of an audience's metadata, or "" if there is none.
func (r *Realm) ResourceMetadataURL(audience string) string { return r.resources.urls[audience] }

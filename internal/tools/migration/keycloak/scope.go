package keycloak

import (
	"slices"
)

const audienceMapper = "oidc-audience-mapper"

// scopes returns the scopes of the client that Keycloak writes to tokens. Some, such as "roles",
// only add claims.
func (c *client) scopes(r *realm) []string {
	var scopes []string
	for _, name := range slices.Concat(c.DefaultScopes, c.OptionalScopes) {
		scope := r.scope(name)
		if scope == nil || scope.Attributes["include.in.token.scope"] != "false" {
			scopes = append(scopes, name)
		}
	}
	return scopes
}

// audiences returns the audiences that mappers of the client and of its default scopes add.
func (c *client) audiences(r *realm) []string {
	mappers := slices.Clone(c.Mappers)
	for _, name := range c.DefaultScopes {
		if scope := r.scope(name); scope != nil {
			mappers = append(mappers, scope.Mappers...)
		}
	}
	var audiences []string
	for _, m := range mappers {
		if m.Type != audienceMapper || m.Config["access.token.claim"] == "false" {
			continue
		}
		// Keycloak uses the custom audience only if there is no client.
		for _, name := range []string{"included.client.audience", "included.custom.audience"} {
			if audience := m.Config[name]; audience != "" {
				audiences = append(audiences, audience)
				break
			}
		}
	}
	return audiences
}

func (r *realm) scope(name string) *clientScope {
	for i := range r.Scopes {
		if r.Scopes[i].Name == name {
			return &r.Scopes[i]
		}
	}
	return nil
}

package feed

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Load replaces the contents of a registry with records, for a token server without a cluster. An
// unreadable record keeps its last known good version. Load returns the errors of those records by
// name.
func Load(reg *registry.Registry, records []*corev1.Secret) map[string]error {
	var p prepared
	for _, secret := range records {
		converted, err := prepare(secret)
		if err != nil {
			converted = unreadable{secret.Name, err}
		}
		p.add(converted)
	}
	reg.Replace(p.realms, p.clients, p.subjects, func(name string) bool { return p.unreadable[name] != nil })
	return p.unreadable
}

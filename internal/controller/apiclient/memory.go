package apiclient

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// unclaimed holds, in memory alone, the secrets whose verifiers are recorded while their
// consumer Secrets can't be written: because of a quota, say, or an admission policy. Each try then
// hands out the same secret, where another one each time would be another record for
// every token server to load. A crash forgets them, and others are made.
type unclaimed struct {
	mu      sync.Mutex
	secrets map[types.NamespacedName]string // by ApiClient
}

// get returns the secret of an ApiClient; empty for none. Whether it is one of the very
// object is for the record to say, which verifies it or doesn't.
func (u *unclaimed) get(client types.NamespacedName) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.secrets[client]
}

// put remembers a secret; an empty one is forgotten.
func (u *unclaimed) put(client types.NamespacedName, secret string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if secret == "" {
		delete(u.secrets, client)
		return
	}
	if u.secrets == nil {
		u.secrets = map[types.NamespacedName]string{}
	}
	u.secrets[client] = secret
}

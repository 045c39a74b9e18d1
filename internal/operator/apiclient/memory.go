package apiclient

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memory stores one string per ApiClient for the lifetime of the process. It is keyed by name, so
// readers must check that a value belongs to the current object and not to a deleted one with the
// same name.
type memory struct {
	mu     sync.Mutex
	values map[types.NamespacedName]string
}

// get returns the value for an ApiClient, or an empty string if there is none.
func (m *memory) get(client types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[client]
}

// put stores the value for an ApiClient. An empty value deletes the entry.
func (m *memory) put(client types.NamespacedName, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value == "" {
		delete(m.values, client)
		return
	}
	if m.values == nil {
		m.values = map[types.NamespacedName]string{}
	}
	m.values[client] = value
}

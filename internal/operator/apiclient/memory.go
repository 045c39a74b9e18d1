package apiclient

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memory holds one string for each ApiClient in this process alone: a crash forgets all of
// them. Whether one is of the very object and not of a namesake is for who reads it to see.
type memory struct {
	mu   sync.Mutex
	held map[types.NamespacedName]string
}

// get returns what is held for an ApiClient; empty for nothing.
func (m *memory) get(client types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[client]
}

// put holds s for an ApiClient; an empty one is forgotten.
func (m *memory) put(client types.NamespacedName, s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s == "" {
		delete(m.held, client)
		return
	}
	if m.held == nil {
		m.held = map[types.NamespacedName]string{}
	}
	m.held[client] = s
}

package registry

import (
	"cmp"
	"strings"

	"github.com/puzpuzpuz/xsync/v4"
)

// table holds the clients of one realm UID by client ID. It can exist without a realm because realm
// and client records may arrive in any order.
type table struct {
	// byID contains one client for each client ID. If several clients share a client ID, the one
	// with the highest precedence is used.
	byID *xsync.Map[string, *Client]

	// Only the writer uses the fields below. duplicates lists the clients, ordered by precedence,
	// for each client ID that several clients share.
	duplicates map[string][]*Client
	size       int
}

func newTable() *table {
	return &table{byID: xsync.NewMap[string, *Client](), duplicates: map[string][]*Client{}}
}

// load returns the client served under the given client ID, or nil.
func (t *table) load(id string) *Client {
	client, _ := t.byID.Load(id)
	return client
}

// withID returns all clients with the given client ID, ordered by precedence.
func (t *table) withID(id string) []*Client {
	if clients, ok := t.duplicates[id]; ok {
		return clients
	}
	if client := t.load(id); client != nil {
		return []*Client{client}
	}
	return nil
}

// store replaces all clients with the given client ID. The clients must be ordered by precedence.
func (t *table) store(id string, clients []*Client) {
	delete(t.duplicates, id)
	if len(clients) == 0 {
		t.byID.Delete(id)
		return
	}
	if len(clients) > 1 {
		t.duplicates[id] = clients
	}
	t.byID.Store(id, clients[0])
}

// comparePrecedence orders clients with the same client ID. Enabled clients come first; the
// operator enables at most one. Older clients come before newer ones. The UID breaks ties, so that
// all token servers serve the same client.
func comparePrecedence(a, b *Client) int {
	return cmp.Or(compareBool(a.Disabled, b.Disabled), a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.UID, b.UID))
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

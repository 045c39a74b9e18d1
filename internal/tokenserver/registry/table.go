package registry

import (
	"cmp"
	"strings"

	"github.com/puzpuzpuz/xsync/v4"
)

// table holds the clients of one realm UID by client ID. It can exist without the realm because the
// records of realms and clients arrive in any order.
type table struct {
	// byID has one client for each client ID. If several clients have the same client ID, it is the
	// first of them by precedence.
	byID *xsync.Map[string, *Client]

	// Only the writer uses the fields below.
	duplicates map[string][]*Client // by client ID; the clients, by precedence, if there are several
	size       int
}

func newTable() *table {
	return &table{byID: xsync.NewMap[string, *Client](), duplicates: map[string][]*Client{}}
}

// load returns the client that is served under a client ID, or nil.
func (t *table) load(id string) *Client {
	client, _ := t.byID.Load(id)
	return client
}

// withID returns all clients with a client ID, by precedence.
func (t *table) withID(id string) []*Client {
	if clients, ok := t.duplicates[id]; ok {
		return clients
	}
	if client := t.load(id); client != nil {
		return []*Client{client}
	}
	return nil
}

// store replaces all clients with a client ID. The clients are sorted by precedence.
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

// comparePrecedence orders clients with the same client ID. The operator enables at most one of
// them, which comes first. Among the others, the oldest comes first. The UID breaks ties, so that
// all token servers serve the same client.
func comparePrecedence(a, b *Client) int {
	return cmp.Or(compareBool(a.Disabled, b.Disabled), a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.UID, b.UID))
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

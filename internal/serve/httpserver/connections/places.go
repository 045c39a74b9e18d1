package connections

import (
	"container/list"
	"net/netip"

	"github.com/realmkeeper/realmkeeper/internal/serve/source"
)

// origin is a source with connections.
type origin struct {
	connections list.List // of *Conn, the least recently used first
	unclosed    int       // connections that the server has not released
}

// enter adds a connection. If there is no place for it, it returns the reason.
func (l *Listener) enter(c *Conn, peer netip.Addr) string {
	var victim *Conn
	defer func() { l.evict(victim) }()
	l.mu.Lock()
	defer l.mu.Unlock()
	var ok bool
	if victim, ok = l.joinSource(c, peer); !ok {
		return ReasonSource
	}
	if victim == nil && l.all.Len() >= l.options.Total {
		if victim = oldestIdle(&l.all); victim == nil {
			l.leaveSource(c)
			return ReasonLimit
		}
		l.remove(victim)
	}
	c.element = l.all.PushBack(c)
	l.unclosed++
	return ""
}

// joinSource counts the connection for its source. If the source has too many, it removes the
// source's oldest idle connection, which the caller must close, or returns false if none is idle.
func (l *Listener) joinSource(c *Conn, address netip.Addr) (victim *Conn, ok bool) {
	c.source = netip.Addr{}
	if source.Contains(l.options.Shared, address) {
		return nil, true
	}
	network := source.Network(address)
	from := l.sources[network]
	if from == nil {
		from = &origin{}
		l.sources[network] = from
	}
	limit := l.options.PerSource
	if from.unclosed >= limit+closing(limit) {
		return nil, false
	}
	if from.connections.Len() >= limit {
		if victim = oldestIdle(&from.connections); victim == nil {
			return nil, false
		}
		l.remove(victim)
	}
	from.unclosed++
	c.origin, c.originElement, c.source = from, from.connections.PushBack(c), network
	return victim, true
}

// closing returns how many closed connections are tolerated that the server has not released.
func closing(limit int) int { return max(8, limit/8) }

// release ends the count of a connection that the server has closed.
func (l *Listener) release(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(c)
	l.leaveSource(c)
	l.unclosed--
	l.released.Signal()
}

// leaveSource ends the count of a connection for its source. Its requests that are still in progress count for it.
func (l *Listener) leaveSource(c *Conn) {
	if c.origin == nil {
		return
	}
	if c.originElement != nil {
		c.origin.connections.Remove(c.originElement)
		c.originElement = nil
	}
	if c.origin.unclosed--; c.origin.unclosed == 0 {
		delete(l.sources, c.source)
	}
	c.origin = nil
}

// remove makes room for another connection. The removed one must be closed.
func (l *Listener) remove(c *Conn) {
	if c.element == nil {
		return
	}
	l.all.Remove(c.element)
	c.element = nil
	if c.originElement != nil {
		c.origin.connections.Remove(c.originElement)
		c.originElement = nil
	}
}

// oldestIdle returns the least recently used connection without a request in progress, or nil.
func oldestIdle(connections *list.List) *Conn {
	for e := connections.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*Conn); ok && c.busy == 0 {
			return c
		}
	}
	return nil
}

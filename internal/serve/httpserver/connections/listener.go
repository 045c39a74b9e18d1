// Package connections limits the connections of a server, in total and for each source, and reads
// the PROXY protocol from trusted networks.
package connections

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/realmkeeper/realmkeeper/internal/serve/source"
)

// Why a connection was closed. These are values of a metric's label.
const (
	// ReasonIdle means that the connection was the oldest idle one when a new one needed its place.
	ReasonIdle = "idle"
	// ReasonSource means that the source of a new connection had too many, none of them idle.
	ReasonSource = "source"
	// ReasonLimit means that there were too many connections, none of them idle.
	ReasonLimit = "limit"
	// ReasonAbuse means that the client sent a lot without completing a request.
	ReasonAbuse = "abuse"
	// ReasonMemory means that memory was short, and the connection was among the oldest idle ones.
	ReasonMemory = "memory"
	// ReasonProxyHeader means that the PROXY protocol header was missing, late, or malformed.
	ReasonProxyHeader = "proxy_header"
)

// Reasons lists all reasons.
var Reasons = []string{ReasonIdle, ReasonSource, ReasonLimit, ReasonAbuse, ReasonMemory, ReasonProxyHeader}

// crowdedIdle is the longest time for which idle connections stay open while there are many.
const crowdedIdle = 30 * time.Second

// These are the kernel's buffers for one connection in bytes, which count as memory of the Pod.
// Requests and most responses have a few hundred bytes.
const (
	receiveBuffer = 32 << 10
	sendBuffer    = 64 << 10
)

// Options configures a Listener. Total and PerSource are required.
type Options struct {
	// Total and PerSource are the maximum numbers of connections, in total and from one source. The
	// addresses of an IPv6 /64 network count as one source.
	Total, PerSource int
	// ProxyProtocol lists the networks of load balancers whose connections begin with a header of
	// the PROXY protocol, version 1 or 2. Other connections never have one.
	ProxyProtocol []netip.Prefix
	// Shared lists the networks of proxies whose connections come from many clients. PerSource does
	// not apply to them.
	Shared []netip.Prefix
	// HeaderTimeout bounds the wait for the PROXY protocol header.
	HeaderTimeout time.Duration
	// Unproductive is the number of bytes that a client may send without completing a request,
	// beyond which its connection is closed. It is slowed down earlier. If 0, there is no limit.
	Unproductive int64
	// Idle is the time after which an idle connection is closed, at most crowdedIdle while more than half of
	// Total are open. If 0, there is no limit.
	Idle time.Duration
	// TLS limits the size of the ClientHello. It requires ClientHello in the TLS configuration.
	TLS bool
	// Closed is called with the reason each time that the Listener closes or refuses a connection.
	// It is optional.
	Closed func(reason string)
}

// Listener accepts connections within the limits. If there are too many, it closes the oldest idle
// one: of the same source if that has too many, otherwise of all. A connection is idle unless the
// server is processing a complete request. If none is idle, the new connection is refused.
//
// A closed connection counts until the server has released it: a source may have only a few more
// than PerSource, and Accept waits if there are a few more than Total. So new connections can't
// outrun the server.
type Listener struct {
	net.Listener
	options Options

	mu       sync.Mutex
	released sync.Cond // signals that a connection was released, or that the listener closed
	closed   bool
	timer    *time.Timer // for closeIdle; nil without a limit
	unclosed int         // accepted connections that the server has not released
	all      list.List   // of *Conn, the least recently used first
	sources  map[netip.Addr]*origin
}

// New returns a Listener that accepts connections from inner.
func New(inner net.Listener, o Options) *Listener {
	l := &Listener{Listener: inner, options: o, sources: map[netip.Addr]*origin{}}
	l.released.L = &l.mu
	if o.Idle > 0 {
		l.mu.Lock() // the timer uses itself
		defer l.mu.Unlock()
		l.timer = time.AfterFunc(l.idleInterval(), l.closeIdle)
	}
	return l
}

// closeIdle closes the connections that have been idle for too long, from time to time. It says so on HTTP/2
// connections first, and closes them the next time. A client that sends a request meanwhile gets its response.
//
// The server's own idle timeout would keep each closed HTTP/2 connection in memory for that time if
// it had open streams: net/http stops the timer first, and starts it again with the last stream.
func (l *Listener) closeIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	idle := l.options.Idle
	if l.all.Len() > l.options.Total/2 {
		idle = min(idle, crowdedIdle)
	}
	oldest := time.Now().Add(-idle)
	for e := l.all.Front(); e != nil; {
		c, _ := e.Value.(*Conn) // the list contains nothing else
		if c.used.After(oldest) {
			break
		}
		e = e.Next()
		switch {
		case c.busy > 0:
		case c.announced:
			l.remove(c)
			go c.hangUp()
		default:
			c.announced = true
			go c.announce()
		}
	}
	l.timer.Reset(l.idleInterval())
}

// idleInterval is the time between two looks for idle connections. An idle one is closed after the second look
// that finds it.
func (l *Listener) idleInterval() time.Duration { return min(l.options.Idle, crowdedIdle) / 8 }

// Accept returns the next admitted connection. It is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		if err := l.wait(); err != nil {
			return nil, err
		}
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := raw.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(receiveBuffer) // without it, only memory is less bounded
			_ = tcp.SetWriteBuffer(sendBuffer)
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
	}
}

// Close closes the listener. Accepted connections stay open.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.released.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// CloseQuarter closes a quarter of the connections, the oldest idle ones first, because memory is
// short.
func (l *Listener) CloseQuarter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range l.all.Len()/4 + 1 {
		victim := oldestIdle(&l.all)
		if victim == nil {
			return
		}
		l.remove(victim)
		l.count(ReasonMemory)
		victim.Conn.Close()
	}
}

// Open returns the number of accepted connections that the server has not released.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unclosed
}

// wait waits until the server has released enough connections.
func (l *Listener) wait() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.unclosed >= l.options.Total+closing(l.options.Total) && !l.closed {
		l.released.Wait()
	}
	if l.closed {
		return net.ErrClosed
	}
	return nil
}

// admit returns the connection for the server, or nil if there is no place for it.
func (l *Listener) admit(raw net.Conn) *Conn {
	peer := addrOf(raw.RemoteAddr())
	c := &Conn{Conn: raw, listener: l, inHello: l.options.TLS, used: time.Now()}
	if source.Contains(l.options.ProxyProtocol, peer) {
		c.proxy = proxyproto.NewConn(raw, proxyproto.WithPolicy(proxyproto.REQUIRE), proxyproto.SetReadHeaderTimeout(l.options.HeaderTimeout))
		c.Conn = c.proxy
	}
	if reason := l.enter(c, peer); reason != "" {
		l.count(reason)
		raw.Close()
		return nil
	}
	return c
}

// evict closes a connection that was removed. It may be nil.
func (l *Listener) evict(victim *Conn) {
	if victim == nil {
		return
	}
	l.count(ReasonIdle)
	victim.Conn.Close()
}

func (l *Listener) count(reason string) {
	if l.options.Closed != nil {
		l.options.Closed(reason)
	}
}

func addrOf(address net.Addr) netip.Addr {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

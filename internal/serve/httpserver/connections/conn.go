package connections

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"
)

// maxClientHello is the maximum size of a TLS ClientHello in bytes. With post-quantum key shares
// they have about 2 KiB. Until it is complete, crypto/tls would keep 64 KiB of it.
const maxClientHello = 16 << 10

// A connection that has sent unproductiveBurst bytes without completing a request is slowed down:
// before each read of at most slowRead bytes it pauses. Requests are much smaller. Otherwise,
// decoding what a few connections send, such as HTTP/2 streams beyond the limit, would use all
// processor time, and leave more garbage than the garbage collector can free.
const (
	unproductiveBurst = 32 << 10
	slowRead          = 4 << 10
	slowPause         = 100 * time.Millisecond
)

var errAbuse = errors.New("the client sent too much without completing a request")

var errClientHello = errors.New("the TLS ClientHello is larger than 16 KiB")

// Conn is an admitted connection.
type Conn struct {
	net.Conn
	listener *Listener
	proxy    *proxyproto.Conn // nil: no PROXY protocol

	resolve sync.Once // finds the source behind the PROXY protocol
	release sync.Once
	// writing is held during a write.
	writing      sync.Mutex
	unproductive atomic.Int64 // bytes read since the server last processed a request
	requests     atomic.Int64

	inHello bool // the TLS ClientHello is not complete
	hello   int  // bytes read in it

	// The following fields belong to the listener and its lock.
	element       *list.Element // in all; nil after removal
	origin        *origin       // nil if the connection doesn't count for a source
	originElement *list.Element // in its connections; nil after removal
	source        netip.Addr    // of origin, also after the connection is closed
	secure        *tls.Conn     // with which the server reads and writes; nil without TLS
	announced     bool          // the client knows that the connection will be closed
	busy          int           // requests in progress
	used          time.Time     // when it was accepted, or the last request ended
}

// RemoteAddr returns the address of the client: the one in the PROXY protocol header if there is
// one, otherwise the peer's. It waits for the header.
func (c *Conn) RemoteAddr() net.Addr {
	address := c.Conn.RemoteAddr()
	if c.proxy != nil {
		c.resolve.Do(func() { c.resolved(address) })
	}
	return address
}

// resolved counts the connection for the source in its PROXY protocol header. Until then, and if it
// is a connection of the load balancer itself, such as a health check (command LOCAL), it counts for
// the load balancer.
func (c *Conn) resolved(address net.Addr) {
	header := c.proxy.ProxyHeader()
	if header == nil {
		c.listener.count(ReasonProxyHeader)
		c.Conn.Close()
		return
	}
	if header.Command.IsLocal() {
		return
	}
	l := c.listener
	l.mu.Lock()
	var victim *Conn
	ok := true
	if c.element != nil { // otherwise it has been removed
		l.leaveSource(c)
		victim, ok = l.joinSource(c, addrOf(address))
	}
	l.mu.Unlock()
	l.evict(victim)
	if !ok {
		l.count(ReasonSource)
		c.Conn.Close()
	}
}

// Read reads nothing while a write is in progress. A peer that sends more and more without reading
// what it gets would otherwise fill queues in memory, for example with responses to HTTP/2 PINGs.
func (c *Conn) Read(b []byte) (int, error) {
	limit := c.listener.options.Unproductive
	if limit > 0 && c.unproductive.Load() > unproductiveBurst {
		time.Sleep(slowPause)
		b = b[:min(len(b), slowRead)]
	}
	c.writing.Lock()
	c.writing.Unlock() //nolint:gocritic,staticcheck // Waiting is all that is needed.
	n, err := c.Conn.Read(b)
	if limit > 0 && c.unproductive.Add(int64(n)) > limit {
		c.listener.count(ReasonAbuse)
		return 0, errAbuse
	}
	if c.inHello {
		if c.hello += n; c.hello > maxClientHello {
			return 0, errClientHello
		}
	}
	return n, err
}

// Write writes to the connection.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.Conn.Write(b)
}

// Close closes the connection and gives its place to another one.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.release.Do(func() { c.listener.release(c) })
	return err
}

// politeness bounds the time that the client takes to receive an announcement.
const politeness = time.Second

// goAway is an HTTP/2 frame that asks the client to send no more requests. It names no last request, so those that
// are on their way are processed (RFC 9113 §6.8).
var goAway = []byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// announce tells the client of an idle HTTP/2 connection that it will be closed. The server writes nothing at this
// time, except for single frames.
func (c *Conn) announce() {
	secure := c.tls()
	if secure == nil || secure.ConnectionState().NegotiatedProtocol != "h2" {
		return
	}
	_ = secure.SetWriteDeadline(time.Now().Add(politeness))
	_, _ = secure.Write(goAway)
	_ = secure.SetWriteDeadline(time.Time{})
}

// hangUp closes a connection, with a close_notify alert if it has TLS (RFC 8446 §6.1).
func (c *Conn) hangUp() {
	if secure := c.tls(); secure != nil {
		_ = secure.Close()
	}
	c.Conn.Close()
}

func (c *Conn) tls() *tls.Conn {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.secure
}

// LimitedSource returns the source for which the connection counts, or counted until it was closed. It is
// invalid if there is none, for example because the source is hidden, and for a nil connection.
func (c *Conn) LimitedSource() netip.Addr {
	if c == nil {
		return netip.Addr{}
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.source
}

// turn is the number of requests of an HTTP/1 connection that are processed before others have their turn.
const turn = 8

// CountRequest counts a request, and reports whether the connection has had its turn. It returns true for a nil
// connection.
func (c *Conn) CountRequest() bool { return c == nil || c.requests.Add(1)%turn == 0 }

// Begin marks the connection as busy until the returned function is called. This function also resets the count of
// unproductive bytes. A busy connection is not closed to make room for others. A nil connection is never busy.
func (c *Conn) Begin() (end func()) {
	if c == nil {
		return func() {}
	}
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	c.busy++
	return c.end
}

func (c *Conn) end() {
	c.unproductive.Store(0)
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	c.busy--
	c.used = time.Now()
	if c.element != nil {
		l.all.MoveToBack(c.element)
	}
	if c.originElement != nil {
		c.origin.connections.MoveToBack(c.originElement)
	}
}

// ClientHello ends the limit on the size of the ClientHello. Use it as tls.Config.GetConfigForClient.
func ClientHello(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if c, ok := hello.Conn.(*Conn); ok {
		c.inHello = false
	}
	return nil, nil //nolint:nilnil // It keeps the configuration.
}

type contextKey struct{}

// WithConn returns a context with the connection, for From. Use it as http.Server.ConnContext.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	secure, ok := conn.(*tls.Conn)
	if ok {
		conn = secure.NetConn()
	}
	if c, ok := conn.(*Conn); ok {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.secure = secure
		return context.WithValue(ctx, contextKey{}, c)
	}
	return ctx
}

// From returns the connection of a request, or nil.
func From(ctx context.Context) *Conn {
	c, _ := ctx.Value(contextKey{}).(*Conn)
	return c
}

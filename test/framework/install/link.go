package install

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// Link is the network between a program and the API server. It forwards TCP connections and can be
// cut.
type Link struct {
	// URL is the address that the program uses in place of the API server's address.
	URL string

	port   *controlplane.Port
	target string // the API server's address

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	open     map[net.Conn]struct{}
	pass     chan struct{} // closed while data passes
	running  sync.WaitGroup
}

// StartLink starts a link. It ends with the test.
func (i *Installation) StartLink(t testing.TB) *Link {
	t.Helper()
	target, err := url.Parse(i.Env.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{URL: "https://" + port.Address(), port: port, target: target.Host, open: map[net.Conn]struct{}{}, pass: closed()}
	l.Restore(t)
	t.Cleanup(func() {
		l.Refuse()
		l.setPass(closed())
		l.running.Wait()
		port.Release()
	})
	return l
}

// Refuse closes all connections and refuses new ones.
func (l *Link) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	for conn := range l.open {
		_ = conn.Close()
	}
}

// Hang keeps all connections open and accepts new ones, but none of them carries data.
func (l *Link) Hang() { l.setPass(make(chan struct{})) }

// Restore ends Refuse and Hang.
func (l *Link) Restore(t testing.TB) {
	t.Helper()
	l.setPass(closed())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		return
	}
	listener, err := net.Listen("tcp", l.port.Address())
	if err != nil {
		t.Fatal(err)
	}
	l.listener = listener
	l.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.running.Go(func() { l.forward(conn) })
		}
	})
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// setPass makes data pass while the channel is closed. Connections that wait are released.
func (l *Link) setPass(pass chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.pass
	l.pass = pass
	select {
	case <-before:
	default:
		close(before)
	}
}

func (l *Link) wait() {
	l.mu.Lock()
	pass := l.pass
	l.mu.Unlock()
	<-pass
}

func (l *Link) forward(conn net.Conn) {
	defer l.track(conn)()
	l.wait()
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer l.track(server)()
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{conn, server}, {server, conn}} {
		copying.Go(func() {
			_, _ = io.Copy(waiting{pair[0], l}, pair[1])
			_ = conn.Close()
			_ = server.Close()
		})
	}
	copying.Wait()
}

// track makes Refuse close the connection, until the returned function closes it.
func (l *Link) track(conn net.Conn) (untrack func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		_ = conn.Close()
	}
	l.open[conn] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, conn)
		_ = conn.Close()
	}
}

// waiting waits before each write while the link hangs.
type waiting struct {
	to   io.Writer
	link *Link
}

func (w waiting) Write(data []byte) (int, error) {
	w.link.wait()
	return w.to.Write(data)
}

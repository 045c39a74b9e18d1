package connections_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"
	"go.uber.org/goleak"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver/connections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listener is a Listener on loopback whose connections the test accepts. It counts the reasons for
// closing connections.
type listener struct {
	*connections.Listener
	mu      sync.Mutex
	reasons map[string]int
}

func listen(t *testing.T, o connections.Options) *listener {
	t.Helper()
	inner := testkit.Value(net.Listen("tcp", "0.0.0.0:0"))(t)
	l := &listener{reasons: map[string]int{}}
	o.HeaderTimeout = 10 * time.Second
	o.Closed = func(reason string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reasons[reason]++
	}
	l.Listener = connections.New(inner, o)
	t.Cleanup(func() { l.Close() })
	return l
}

// dial connects from a loopback address.
func (l *listener) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn := testkit.Value(dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// connect connects and accepts the connection.
func (l *listener) connect(t *testing.T, from string) (client net.Conn, server *connections.Conn) {
	t.Helper()
	client = l.dial(t, from)
	return client, l.accept(t)
}

func (l *listener) accept(t *testing.T) *connections.Conn {
	t.Helper()
	conn := testkit.Value(l.Accept())(t)
	t.Cleanup(func() { conn.Close() })
	c, ok := conn.(*connections.Conn)
	if !ok {
		t.Fatalf("Accept returned a %T", conn)
	}
	return c
}

func (l *listener) checkReasons(t *testing.T, want map[string]int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	testkit.Diff(t, "reasons", want, l.reasons)
}

// checkClosed waits until the server has closed the connection.
func checkClosed(t *testing.T, client net.Conn) {
	t.Helper()
	_ = client.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is open: %v", err)
	}
}

// checkOpen sends a byte through the connection.
func checkOpen(t *testing.T, client net.Conn, server *connections.Conn) {
	t.Helper()
	if _, err := client.Write([]byte{1}); err != nil {
		t.Errorf("the connection is closed: %v", err)
	}
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Errorf("the connection is closed: %v", err)
	}
}

func TestOldestIdleConnectionMakesRoom(t *testing.T) {
	l := listen(t, connections.Options{Total: 3, PerSource: 3})
	oldest, busy := l.connect(t, "127.0.0.2")
	end := busy.Begin()
	second, _ := l.connect(t, "127.0.0.3")
	third, thirdServer := l.connect(t, "127.0.0.4")

	fourth, fourthServer := l.connect(t, "127.0.0.5")
	checkClosed(t, second)
	checkOpen(t, oldest, busy)
	end() // now the last one used

	_, _ = l.connect(t, "127.0.0.5")
	checkClosed(t, third)
	_ = thirdServer
	checkOpen(t, oldest, busy)
	checkOpen(t, fourth, fourthServer)
	l.checkReasons(t, map[string]int{connections.ReasonIdle: 2})
}

func TestSourceMakesRoomForItself(t *testing.T) {
	l := listen(t, connections.Options{Total: 10, PerSource: 2})
	other, otherServer := l.connect(t, "127.0.0.3")
	first, _ := l.connect(t, "127.0.0.2")
	second, secondServer := l.connect(t, "127.0.0.2")
	third, thirdServer := l.connect(t, "127.0.0.2")
	checkClosed(t, first)
	checkOpen(t, other, otherServer)
	checkOpen(t, second, secondServer)

	secondServer.Begin()
	thirdServer.Begin()
	refused := l.dial(t, "127.0.0.2")
	accepted := l.dial(t, "127.0.0.3") // Accept returns this one
	acceptedServer := l.accept(t)
	checkClosed(t, refused)
	checkOpen(t, accepted, acceptedServer)
	checkOpen(t, second, secondServer)
	checkOpen(t, third, thirdServer)
	l.checkReasons(t, map[string]int{connections.ReasonIdle: 1, connections.ReasonSource: 1})
}

func TestBusyConnectionsStay(t *testing.T) {
	l := listen(t, connections.Options{Total: 2, PerSource: 2})
	first, firstServer := l.connect(t, "127.0.0.2")
	second, secondServer := l.connect(t, "127.0.0.3")
	firstServer.Begin()
	secondServer.Begin()
	refused := l.dial(t, "127.0.0.4")
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, _ := l.Accept()
		accepted <- conn
	}()
	checkClosed(t, refused)
	l.checkReasons(t, map[string]int{connections.ReasonLimit: 1})
	checkOpen(t, first, firstServer)
	checkOpen(t, second, secondServer)
	l.Close()
	if conn := <-accepted; conn != nil {
		t.Errorf("Accept returned a connection from %s", conn.RemoteAddr())
	}
}

// A place is free again after the connection has been closed, regardless of who closed it.
func TestPlacesAreReleased(t *testing.T) {
	l := listen(t, connections.Options{Total: 4, PerSource: 2})
	for range 50 {
		client, server := l.connect(t, "127.0.0.2")
		checkOpen(t, client, server)
		server.Close()
		server.Close()
	}
	testkit.Diff(t, "open connections", 0, l.Open())
	l.checkReasons(t, map[string]int{})
}

// HTTP/2 requests are processed for longer than their connection is open. They still count for its source, so a client
// that closes connections gets no more places than another.
func TestClosedConnectionKeepsItsSource(t *testing.T) {
	l := listen(t, connections.Options{Total: 4, PerSource: 2, Shared: []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")}})
	for from, want := range map[string]netip.Addr{"127.0.0.2": netip.MustParseAddr("127.0.0.2"), "127.0.0.3": {}} {
		_, server := l.connect(t, from)
		testkit.Diff(t, "source of a connection from "+from, want.String(), server.LimitedSource().String())
		server.Close()
		testkit.Diff(t, "source of a closed connection from "+from, want.String(), server.LimitedSource().String())
	}
}

// While the server has not released the connections that made room, Accept waits.
func TestAcceptWaitsForTheServer(t *testing.T) {
	l := listen(t, connections.Options{Total: 8, PerSource: 8})
	var servers []*connections.Conn
	for range 8 + 8 { // and eight that are being closed
		_, server := l.connect(t, "127.0.0.2")
		servers = append(servers, server)
	}
	l.dial(t, "127.0.0.2")
	accepted := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
		}
		accepted <- err
	}()
	select {
	case <-accepted:
		t.Fatal("Accept returned although the server had released no connection")
	case <-time.After(50 * time.Millisecond): // can only pass by mistake, not fail
	}
	servers[0].Close()
	testkit.Do(t, <-accepted)
}

func TestIPv6NetworksAndSharedProxies(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
	l := listen(t, connections.Options{Total: 10, PerSource: 1, Shared: loopback})
	for range 3 {
		client, server := l.connect(t, "127.0.0.2")
		checkOpen(t, client, server)
	}
	l.checkReasons(t, map[string]int{})
	first, _ := l.connect(t, "127.0.0.3")
	_, _ = l.connect(t, "127.0.0.3")
	checkClosed(t, first)
}

// header returns a PROXY protocol header.
func header(version byte, source string) *proxyproto.Header {
	return proxyproto.HeaderProxyFromAddrs(version, &net.TCPAddr{IP: net.ParseIP(source), Port: 4711}, &net.TCPAddr{IP: net.ParseIP("192.0.2.99"), Port: 443})
}

func TestProxyProtocol(t *testing.T) {
	balancer := []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
	for _, version := range []byte{1, 2} {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			l := listen(t, connections.Options{Total: 10, PerSource: 2, ProxyProtocol: balancer})
			var clients []net.Conn
			for range 3 {
				client, server := l.connect(t, "127.0.0.2")
				testkit.Value(header(version, "192.0.2.1").WriteTo(client))(t)
				testkit.Diff(t, "address of the client", "192.0.2.1:4711", server.RemoteAddr().String())
				checkOpen(t, client, server)
				clients = append(clients, client)
			}
			checkClosed(t, clients[0]) // the source has only two places
			client, server := l.connect(t, "127.0.0.2")
			testkit.Value(header(version, "192.0.2.2").WriteTo(client))(t)
			testkit.Diff(t, "address of the client", "192.0.2.2:4711", server.RemoteAddr().String())
			l.checkReasons(t, map[string]int{connections.ReasonIdle: 1})
		})
	}
}

func TestHealthCheckOfTheBalancer(t *testing.T) {
	l := listen(t, connections.Options{Total: 10, PerSource: 3, ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	for range 3 {
		client, server := l.connect(t, "127.0.0.2")
		testkit.Value((&proxyproto.Header{Version: 2, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}).WriteTo(client))(t)
		if got, _, _ := net.SplitHostPort(server.RemoteAddr().String()); got != "127.0.0.2" {
			t.Errorf("the connection is from %s", got)
		}
		checkOpen(t, client, server)
	}
	l.checkReasons(t, map[string]int{})
}

func TestMalformedProxyHeader(t *testing.T) {
	for name, sent := range map[string]string{
		"none":          "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS ClientHello",
		"junk":          "PROXY TCP4 junk\r\n",
		"line too long": "PROXY TCP4 " + string(make([]byte, 200)),
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, connections.Options{Total: 10, PerSource: 2, ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
			client, server := l.connect(t, "127.0.0.2")
			testkit.Value(io.WriteString(client, sent))(t)
			if got, _, _ := net.SplitHostPort(server.RemoteAddr().String()); got != "127.0.0.2" {
				t.Errorf("the connection is from %s", got)
			}
			if n, err := server.Read(make([]byte, 1)); err == nil {
				t.Errorf("read %d bytes", n)
			}
			checkClosed(t, client)
			l.checkReasons(t, map[string]int{connections.ReasonProxyHeader: 1})
		})
	}
}

// A header from a stranger is not a header, but the data of the connection.
func TestProxyHeaderFromStranger(t *testing.T) {
	l := listen(t, connections.Options{Total: 10, PerSource: 2, ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	client, server := l.connect(t, "127.0.0.3")
	testkit.Value(header(1, "192.0.2.1").WriteTo(client))(t)
	if got, _, _ := net.SplitHostPort(server.RemoteAddr().String()); got != "127.0.0.3" {
		t.Errorf("the connection is from %s", got)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(server, got); err != nil || string(got) != "PROXY" {
		t.Errorf("read %q: %v", got, err)
	}
}

// The server reads nothing more from a peer that doesn't read what the server has written.
func TestReadWaitsForWrite(t *testing.T) {
	l := listen(t, connections.Options{Total: 10, PerSource: 2})
	client, server := l.connect(t, "127.0.0.2")
	written := make(chan error, 1)
	go func() {
		_, err := server.Write(make([]byte, 16<<20)) // more than the kernel's buffers take
		written <- err
	}()
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil { // the write has started
		t.Fatal(err)
	}
	testkit.Value(client.Write([]byte{1}))(t)
	read := make(chan error, 1)
	go func() {
		_, err := server.Read(make([]byte, 1))
		read <- err
	}()
	select {
	case <-read:
		t.Error("Read returned during the write")
	case <-time.After(50 * time.Millisecond): // can only pass by mistake, not fail
	}
	testkit.Value(io.CopyN(io.Discard, client, 16<<20-1))(t)
	testkit.Do(t, errors.Join(<-written, <-read))
}

// A client may send any number of requests, but not endless parts of requests.
func TestUnproductiveConnectionIsClosed(t *testing.T) {
	const limit = 1000
	l := listen(t, connections.Options{Total: 10, PerSource: 2, Unproductive: limit})
	client, server := l.connect(t, "127.0.0.2")
	read := func() error {
		testkit.Value(client.Write(make([]byte, limit)))(t)
		_, err := io.ReadFull(server, make([]byte, limit))
		return err
	}
	for range 3 {
		testkit.Do(t, read())
		server.Begin()()
	}
	l.checkReasons(t, map[string]int{})
	testkit.Do(t, read())
	if err := read(); err == nil {
		t.Error("read more than the limit")
	}
	l.checkReasons(t, map[string]int{connections.ReasonAbuse: 1})
}

func TestIdleConnectionIsClosed(t *testing.T) {
	l := listen(t, connections.Options{Total: 10, PerSource: 10, Idle: 40 * time.Millisecond})
	busy, busyServer := l.connect(t, "127.0.0.2")
	end := busyServer.Begin()
	idle, _ := l.connect(t, "127.0.0.2")
	checkClosed(t, idle)
	checkOpen(t, busy, busyServer)
	end()
	checkClosed(t, busy)
}

// pipes is a listener that accepts one end of each pipe.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) { return <-p, nil }
func (p pipes) Close() error              { return nil }
func (p pipes) Addr() net.Addr            { return nil }

// While there are many connections, idle ones are closed soon, even if the limit is much longer.
func TestManyIdleConnectionsAreClosedSooner(t *testing.T) {
	for name, tc := range map[string]struct {
		open     int
		min, max time.Duration // until the first one is closed
	}{
		"half":           {2, time.Hour, 80 * time.Minute},
		"more than half": {3, 30 * time.Second, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := make(pipes, tc.open)
				l := connections.New(inner, connections.Options{Total: 4, PerSource: 4, Idle: time.Hour})
				defer l.Close()
				var first net.Conn
				for range tc.open {
					client, server := net.Pipe()
					first = cmp.Or(first, client)
					inner <- server
					accepted := testkit.Value(l.Accept())(t)
					t.Cleanup(func() { _ = accepted.Close() })
				}
				began := time.Now()
				_, _ = first.Read(make([]byte, 1))
				if took := time.Since(began); took < tc.min || took > tc.max {
					t.Errorf("closed after %s, want %s to %s", took, tc.min, tc.max)
				}
			})
		})
	}
}

// Connections without their PROXY protocol header count for the load balancer, so they don't take all
// places.
func TestUnfinishedProxyHeaders(t *testing.T) {
	l := listen(t, connections.Options{Total: 10, PerSource: 2, ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	other, otherServer := l.connect(t, "127.0.0.3")
	first, _ := l.connect(t, "127.0.0.2")
	for range 9 {
		l.connect(t, "127.0.0.2")
	}
	checkClosed(t, first)
	checkOpen(t, other, otherServer)
}

func TestShortMemoryClosesIdleConnections(t *testing.T) {
	l := listen(t, connections.Options{Total: 10, PerSource: 10})
	busy, busyServer := l.connect(t, "127.0.0.2")
	busyServer.Begin()
	oldest, _ := l.connect(t, "127.0.0.2")
	newest, newestServer := l.connect(t, "127.0.0.2")
	l.CloseQuarter()
	checkClosed(t, oldest)
	checkOpen(t, busy, busyServer)
	checkOpen(t, newest, newestServer)
	l.checkReasons(t, map[string]int{connections.ReasonMemory: 1})
}

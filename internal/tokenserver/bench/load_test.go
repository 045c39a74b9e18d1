package bench_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

const (
	benchConnections = 64
	// window is how long each rate is measured per round.
	window = 100 * time.Millisecond
	// floodWindow is longer because a percentile needs many responses.
	floodWindow = 250 * time.Millisecond
)

// rate runs operations on all cores for approximately the given window.
type rate func(window time.Duration) (tally, error)

// tally is a number of operations and their total duration.
type tally struct {
	operations int64
	elapsed    time.Duration
}

// measure measures the rates alternately and reports them per second. Each round starts with a
// different rate, so that changes in machine speed affect all rates equally.
func measure(b *testing.B, rates map[string]rate) map[string]float64 {
	b.Helper()
	names := slices.Sorted(maps.Keys(rates))
	sums := map[string]tally{}
	for turn := 0; b.Loop(); turn++ {
		for i := range names {
			name := names[(turn+i)%len(names)]
			got, err := rates[name](window)
			if err != nil {
				b.Fatalf("measure %s: %v", name, err)
			}
			sums[name] = tally{sums[name].operations + got.operations, sums[name].elapsed + got.elapsed}
		}
	}
	perSecond := map[string]float64{}
	for name, sum := range sums {
		perSecond[name] = float64(sum.operations) / sum.elapsed.Seconds()
		b.ReportMetric(perSecond[name], name+"/s")
	}
	return perSecond
}

// available returns the time per core that was available to this process: the CPU time that it used
// plus the machine's idle time. It excludes the CPU time of other processes, so that they affect
// ratios less.
func available() time.Duration {
	const tick = time.Second / 100 // USER_HZ on Linux
	all := cpuTime()
	stat, _ := os.ReadFile("/proc/stat") // on other systems, idle time counts as zero
	if fields := bytes.Fields(stat); len(fields) > 5 {
		for _, field := range fields[4:6] { // idle and iowait for all cores (proc_stat(5))
			ticks, _ := strconv.ParseInt(string(field), 10, 64)
			all += time.Duration(ticks) * tick
		}
	}
	return all / time.Duration(runtime.GOMAXPROCS(0))
}

// parallelRate runs an operation on all cores.
func parallelRate(operation func() error, window time.Duration) (tally, error) {
	var stop atomic.Bool
	var operations atomic.Int64
	failed := make(chan error, runtime.GOMAXPROCS(0))
	var running sync.WaitGroup
	start := available()
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			n := int64(0)
			for ; !stop.Load(); n++ {
				if err := operation(); err != nil {
					failed <- err
					return
				}
			}
			operations.Add(n)
		})
	}
	time.Sleep(window)
	stop.Store(true)
	running.Wait()
	return tally{operations.Load(), available() - start}, firstError(failed)
}

func firstError(failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// loadedServer is an HTTP server on loopback with persistent HTTP/1.1 connections over plain TCP.
// Each connection sends one request at a time.
type loadedServer struct {
	address     string
	connections []*connection
	load        load
}

// load is what clients send.
type load struct {
	next    func() []byte // returns a request; concurrent calls are allowed
	prepare func()        // if not nil, it is called before each measurement
}

func (l load) prepareNow() {
	if l.prepare != nil {
		l.prepare()
	}
}

// anyOf returns a load of randomly chosen requests.
func anyOf(requests [][]byte) load {
	return load{next: func() []byte { return requests[mathrand.IntN(len(requests))] }}
}

// newServer returns a server, and its listener around the given one.
type newServer func(net.Listener) (*http.Server, net.Listener)

// serve starts a server with connections that send the load.
func serve(b *testing.B, newServer newServer, load load) *loadedServer {
	b.Helper()
	s := &loadedServer{address: listen(b, newServer), load: load}
	for range benchConnections {
		c := &connection{conn: dial(b, clientSource, s.address), next: load.next}
		b.Cleanup(func() { c.conn.Close() })
		s.connections = append(s.connections, c)
	}
	return s
}

// listen starts a server, and returns its address.
func listen(b *testing.B, newServer newServer) string {
	b.Helper()
	listener := testkit.Value((&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0"))(b)
	address := listener.Addr().String()
	server, listener := newServer(listener)
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() { _ = server.Close() })
	return address
}

// The flood has an address of its own, because the server limits the requests in flight of each
// address.
const (
	clientSource = "127.0.0.1"
	floodSource  = "127.0.0.2"
)

func dial(b *testing.B, source, address string) net.Conn {
	b.Helper()
	return testkit.Value((&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).DialContext(b.Context(), "tcp", address))(b)
}

// rate sends requests on all connections. Counting starts after each connection has received two
// responses on average, so that as many requests are in flight at the start as at the end.
func (s *loadedServer) rate(window time.Duration) (tally, error) {
	s.load.prepareNow()
	var stop atomic.Bool
	failed := make(chan error, len(s.connections))
	var running sync.WaitGroup
	for _, c := range s.connections {
		running.Go(func() {
			for !stop.Load() {
				if err := c.exchange(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for warm := s.responses() + int64(2*len(s.connections)); s.responses() < warm && len(failed) == 0; {
		time.Sleep(time.Millisecond)
	}
	start, before := available(), s.responses()
	time.Sleep(window)
	got := tally{s.responses() - before, available() - start}
	stop.Store(true)
	running.Wait()
	return got, firstError(failed)
}

func (s *loadedServer) responses() (sum int64) {
	for _, c := range s.connections {
		sum += c.responses.Load()
	}
	return sum
}

// responseTimes measures the response times seen by four clients. Each sends one request at a time.
func (s *loadedServer) responseTimes(b *testing.B) []time.Duration {
	b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var running sync.WaitGroup
	end := time.Now().Add(floodWindow)
	for _, c := range s.connections[:4] {
		running.Go(func() {
			var own []time.Duration
			for time.Now().Before(end) {
				start := time.Now()
				if err := c.exchange(); err != nil {
					b.Error(err)
					break
				}
				own = append(own, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	running.Wait()
	return all
}

// flood sends wrong secrets until stop is called. Half of the connections use the ID of an existing
// client. The others use a new unknown ID for each request.
func (s *loadedServer) flood(b *testing.B) (stop func()) {
	b.Helper()
	var attackers []net.Conn
	var running sync.WaitGroup
	for n := range benchConnections {
		conn := dial(b, floodSource, s.address)
		attackers = append(attackers, conn)
		running.Go(func() {
			buffer := make([]byte, 4<<10)
			for i := 0; ; i++ {
				id := clientID(0)
				if n%2 == 0 {
					id = fmt.Sprintf("unknown-%d-%d", n, i)
				}
				request := tokenRequest("realm-0", "Basic "+base64.StdEncoding.EncodeToString([]byte(id+":wrong")))
				if _, err := conn.Write(request); err != nil {
					return
				}
				if _, err := conn.Read(buffer); err != nil { // the response fits in one segment
					return
				}
			}
		})
	}
	return func() {
		for _, conn := range attackers {
			conn.Close()
		}
		running.Wait()
	}
}

// connection is a client that parses only the necessary parts of a response.
type connection struct {
	conn net.Conn
	// connect opens a connection for each request. If nil, all requests use conn.
	connect   func() (net.Conn, error)
	next      func() []byte
	buffer    [8 << 10]byte
	responses atomic.Int64
}

var errResponse = errors.New("unexpected response")

// exchange sends a request and reads the whole response. The status must be 200.
func (c *connection) exchange() error {
	if c.connect != nil {
		var err error
		if c.conn, err = c.connect(); err != nil {
			return err
		}
		defer c.conn.Close()
	}
	if _, err := c.conn.Write(c.next()); err != nil {
		return err
	}
	for have, want := 0, -1; have != want; {
		n, err := c.conn.Read(c.buffer[have:])
		if err != nil {
			return err
		}
		have += n
		if want >= 0 {
			continue
		}
		if want, err = responseSize(c.buffer[:have]); err != nil {
			return err
		}
	}
	c.responses.Add(1)
	return nil
}

// responseSize returns the total size of a response, given the first bytes in head, or -1 if head
// doesn't contain the whole header.
func responseSize(head []byte) (int, error) {
	header, _, complete := bytes.Cut(head, []byte("\r\n\r\n"))
	if !complete {
		return -1, nil
	}
	_, rest, found := bytes.Cut(header, []byte("\r\nContent-Length: "))
	digits, _, _ := bytes.Cut(rest, []byte("\r\n"))
	body, err := strconv.Atoi(string(digits))
	if !found || err != nil || !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return 0, fmt.Errorf("%w: %q", errResponse, head)
	}
	return len(header) + len("\r\n\r\n") + body, nil
}

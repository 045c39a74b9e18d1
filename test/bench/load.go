package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	connections = 64
	// warmUp is how long load runs at least before it counts, and warmUpRounds how many
	// answers each connection has on average, so that as much is under way as at the end.
	warmUp       = 50 * time.Millisecond
	warmUpRounds = 2
)

// loadedServer is an HTTP server on loopback with the connections that ask it: plain TCP,
// HTTP/1.1, kept alive, one request at a time on each.
//
// Client and server share the cores, so the times of a request's parts add up: a handler
// that does A and then B answers 1/(1/a + 1/b) a second where one that does A alone answers a,
// and the client's part is in both. It writes prepared bytes and reads no more of an answer than it must.
type loadedServer struct {
	server      *http.Server
	connections []*connection
}

// serve starts server on loopback and connects to it. Each connection asks one of the
// requests at random, again and again.
func serve(name string, server *http.Server, requests [][]byte) (*loadedServer, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening on loopback: %w", err)
	}
	labels := pprof.Labels("server", name) // tells a CPU profile whose the time is
	go pprof.Do(context.Background(), labels, func(context.Context) { _ = server.Serve(listener) })
	s := &loadedServer{server: server}
	for i := range connections {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", listener.Addr().String())
		if err != nil {
			s.close()
			return nil, fmt.Errorf("connecting to the server under test: %w", err)
		}
		s.connections = append(s.connections, &connection{
			conn: conn, requests: requests, random: rand.New(rand.NewPCG(uint64(i), 0)), //nolint:gosec // It only chooses who asks.
		})
	}
	return s, nil
}

func (s *loadedServer) close() {
	for _, c := range s.connections {
		c.conn.Close()
	}
	_ = s.server.Close()
}

// rate returns how many requests a second are answered with 200 while all
// connections ask as fast as they can. Any other answer is an error.
func (s *loadedServer) rate(window time.Duration) (float64, error) {
	var (
		stop   atomic.Bool
		failed = make(chan error, len(s.connections))
		asking sync.WaitGroup
	)
	for _, c := range s.connections {
		asking.Go(func() {
			for !stop.Load() {
				if err := c.exchange(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	warm := s.answered() + int64(warmUpRounds*len(s.connections))
	for time.Sleep(warmUp); s.answered() < warm && len(failed) == 0; {
		time.Sleep(time.Millisecond)
	}
	watch, before := startStopwatch(), s.answered()
	time.Sleep(window)
	answered, elapsed := s.answered()-before, watch.elapsed()
	stop.Store(true)
	asking.Wait()
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(answered) / elapsed.Seconds(), nil
	}
}

func (s *loadedServer) answered() int64 {
	var sum int64
	for _, c := range s.connections {
		sum += c.answered.Load()
	}
	return sum
}

// connection asks and reads answers.
type connection struct {
	conn     net.Conn
	requests [][]byte
	random   *rand.Rand
	buffer   [8 << 10]byte
	answered atomic.Int64
}

var (
	statusOK      = []byte("HTTP/1.1 200 ")
	endOfHeader   = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")

	errAnswer = errors.New("answer is not the expected one")
)

// exchange asks one request and reads the answer to its end.
func (c *connection) exchange() error {
	if _, err := c.conn.Write(c.requests[c.random.IntN(len(c.requests))]); err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	have, want := 0, -1
	for have != want {
		n, err := c.conn.Read(c.buffer[have:])
		if err != nil {
			return fmt.Errorf("reading an answer: %w", err)
		}
		have += n
		if want >= 0 {
			continue
		}
		if want, err = answerSize(c.buffer[:have]); err != nil {
			return err
		}
	}
	c.answered.Add(1)
	return nil
}

// answerSize returns the size of the whole answer that begins with head; -1 while
// the header isn't complete.
func answerSize(head []byte) (int, error) {
	end := bytes.Index(head, endOfHeader)
	if end < 0 {
		return -1, nil
	}
	at := bytes.Index(head[:end], contentLength)
	if at < 0 || !bytes.HasPrefix(head, statusOK) {
		return 0, fmt.Errorf("%w: %q", errAnswer, head)
	}
	digits, _, _ := bytes.Cut(head[at+len(contentLength):end], []byte("\r\n"))
	body, err := strconv.Atoi(string(digits))
	if err != nil {
		return 0, fmt.Errorf("%w: %q", errAnswer, head)
	}
	return end + len(endOfHeader) + body, nil
}

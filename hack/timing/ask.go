package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

const host = "api.timing.example"

var errAnswer = errors.New("answer is not 401")

// asker asks for a token and returns how long the answer, a refusal, took.
type asker interface {
	ask(realm, authorization string) (time.Duration, error)
}

// proxy is the network that requests come from: the server believes it that each of them was
// passed on for somebody else. One who failed so often would be slowed.
var proxy = netip.MustParsePrefix("127.0.0.0/8")

func tokenRequest(realm, authorization string) []byte {
	source := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, rand.Uint32()|1<<31))) //nolint:gosec // It only has to be another one each time.
	return fmt.Appendf(nil, "POST /%s%s?grant_type=%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: timing\r\nX-Forwarded-For: %s\r\nAuthorization: %s\r\nContent-Length: 0\r\n\r\n",
		realm, oauth.TokenPath, oauth.GrantTypeClientCredentials, host, source, authorization)
}

// direct calls the handler, without a socket.
type direct struct {
	handler http.Handler
	writer  discard
}

func (d *direct) ask(realm, authorization string) (time.Duration, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(tokenRequest(realm, authorization))))
	if err != nil {
		return 0, fmt.Errorf("parsing a request: %w", err)
	}
	r.RemoteAddr = "127.0.0.1:40000"
	d.writer = discard{header: http.Header{}}
	start := time.Now()
	d.handler.ServeHTTP(&d.writer, r)
	took := time.Since(start)
	if d.writer.status != http.StatusUnauthorized {
		return 0, fmt.Errorf("%w: %d", errAnswer, d.writer.status)
	}
	return took, nil
}

// discard is a http.ResponseWriter that keeps the status alone.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// connection asks over one connection on loopback that is kept alive: plain TCP, HTTP/1.1.
type connection struct {
	server  *http.Server
	address string
	conn    net.Conn // since the first request: the server closes one without
	buffer  [4 << 10]byte
}

// serve starts the server on loopback.
func serve(server *http.Server) (*connection, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening on loopback: %w", err)
	}
	go func() { _ = server.Serve(listener) }()
	return &connection{server: server, address: listener.Addr().String()}, nil
}

func (c *connection) close() {
	_ = c.server.Close()
	if c.conn != nil {
		c.conn.Close()
	}
}

var status401 = []byte("HTTP/1.1 401 ")

// ask takes the first read for the whole answer, which fits into one segment.
func (c *connection) ask(realm, authorization string) (time.Duration, error) {
	if c.conn == nil {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", c.address)
		if err != nil {
			return 0, fmt.Errorf("connecting to the server: %w", err)
		}
		c.conn = conn
	}
	request := tokenRequest(realm, authorization)
	start := time.Now()
	_, err := c.conn.Write(request)
	n := 0
	if err == nil {
		n, err = c.conn.Read(c.buffer[:])
	}
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("asking: %w", err)
	}
	if answer := c.buffer[:n]; !bytes.HasPrefix(answer, status401) || !bytes.HasSuffix(answer, []byte("}\n")) {
		return 0, fmt.Errorf("%w: %q", errAnswer, answer)
	}
	return took, nil
}

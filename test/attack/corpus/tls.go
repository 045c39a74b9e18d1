package corpus

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
)

// The attacks on the connection and the TLS handshake.
var tlsAttacks = map[string]attacker.Attack{
	"TCP connections without a byte":      {Connections: many, Converse: tcp(nil)},
	"ClientHello without a reply":         {Connections: many, Converse: helloOnly},
	"replayed ClientHello, then a reset":  {Connections: few, Converse: replayedHello},
	"handshake message of 16 MiB":         {Connections: few, Converse: hugeHello},
	"random bytes instead of TLS":         {Connections: few, Converse: randomBytes},
	"plain HTTP to the TLS port":          {Connections: few, Converse: tcp([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))},
	"empty TLS records":                   {Connections: few, Converse: emptyRecords},
	"half-closed after the handshake":     {Connections: many, Converse: halfClosed},
	"one byte of a TLS record per second": {Connections: many, Converse: slowHello},
}

// tcp returns an attack that sends bytes without TLS and waits.
func tcp(raw []byte) func(context.Context, *attacker.Session) error {
	return func(ctx context.Context, s *attacker.Session) error {
		c, err := s.TCP(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		s.Requested()
		if _, err := c.Write(raw); err != nil {
			return err
		}
		return hold(c)
	}
}

// hello returns the first message of a handshake.
func hello(s *attacker.Session) []byte {
	record := &recorder{}
	_ = tls.Client(record, s.TLSConfig("h2")).Handshake() // fails because there is no response
	return record.written.Bytes()
}

// recorder is a connection that keeps what is written and has nothing to read.
type recorder struct {
	net.Conn

	written bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error)      { return r.written.Write(b) }
func (r *recorder) Read([]byte) (int, error)         { return 0, io.EOF }
func (r *recorder) SetDeadline(time.Time) error      { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
func (r *recorder) Close() error                     { return nil }

func helloOnly(ctx context.Context, s *attacker.Session) error { return tcp(hello(s))(ctx, s) }

// replayedHello makes the server sign, at almost no cost to the attacker.
func replayedHello(ctx context.Context, s *attacker.Session) error {
	message := hello(s)
	for ctx.Err() == nil {
		c, err := s.TCP(ctx)
		if err != nil {
			return err
		}
		s.Requested()
		if _, err := c.Write(message); err == nil {
			_, _ = c.Read(make([]byte, 1))
		}
		c.Close()
	}
	return nil
}

// hugeHello announces a ClientHello of 16 MiB and sends it in records of the largest size.
func hugeHello(ctx context.Context, s *attacker.Session) error {
	c, err := s.TCP(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	const size = 16 << 10
	first := make([]byte, 5+size)
	copy(first, []byte{22, 3, 1, 0, 0, 1, 0xff, 0xff, 0xff})
	binary.BigEndian.PutUint16(first[3:], size)
	if _, err := c.Write(first); err != nil {
		return err
	}
	clear(first[5:])
	return sendAndRead(ctx, s, c, first)
}

func randomBytes(ctx context.Context, s *attacker.Session) error {
	c, err := s.TCP(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	junk := make([]byte, 64<<10)
	_, _ = rand.Read(junk) // never fails
	return sendAndRead(ctx, s, c, junk)
}

// emptyRecords sends a ClientHello and then handshake records without content.
func emptyRecords(ctx context.Context, s *attacker.Session) error {
	c, err := s.TCP(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(hello(s)); err != nil {
		return err
	}
	return sendAndRead(ctx, s, c, []byte(strings.Repeat("\x17\x03\x03\x00\x00", 1000)))
}

// halfClosed closes its direction after the handshake and keeps the other one open.
func halfClosed(ctx context.Context, s *attacker.Session) error {
	c, err := s.TLS(ctx, "http/1.1")
	if err != nil {
		return err
	}
	defer c.NetConn().Close()
	s.Requested()
	if err := c.CloseWrite(); err != nil {
		return err
	}
	return hold(c.NetConn())
}

func slowHello(ctx context.Context, s *attacker.Session) error {
	c, err := s.TCP(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = hold(c)
	}()
	for _, b := range hello(s) {
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
		s.Requested()
		select {
		case <-time.After(time.Second):
		case <-ended:
			return nil
		}
	}
	return nil
}

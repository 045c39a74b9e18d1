package attacker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handshakeTimeout is how long an attacker waits for a connection or a handshake.
const handshakeTimeout = 10 * time.Second

// Tally counts what an attack did.
type Tally struct {
	// Connections counts those that were opened, and Refused those that failed to open. Handshakes
	// counts those that completed the TLS handshake.
	Connections, Refused, Handshakes int64
	// Requests counts the requests, complete or not, and other units of an attack.
	Requests int64
	// Most is the highest number of open connections.
	Most int64
}

func (t *Tally) add(other Tally) {
	t.Connections += other.Connections
	t.Refused += other.Refused
	t.Handshakes += other.Handshakes
	t.Requests += other.Requests
	t.Most += other.Most
}

// Session is what the connections of an attack in one process share.
type Session struct {
	Order

	dialing                                    chan struct{}
	begin                                      func() // called for each connection that opens
	connections, refused, handshakes, requests atomic.Int64
	open, most, numbers                        atomic.Int64
}

func (s *Session) tally() Tally {
	return Tally{
		Connections: s.connections.Load(), Refused: s.refused.Load(), Handshakes: s.handshakes.Load(),
		Requests: s.requests.Load(), Most: s.most.Load(),
	}
}

// Number returns a different number each time: 1, 2, and so on.
func (s *Session) Number() int64 { return s.numbers.Add(1) }

// Requested counts a request or another unit of an attack.
func (s *Session) Requested() { s.requests.Add(1) }

// conn counts the open connections.
type conn struct {
	*net.TCPConn
	closed func()
}

func (c *conn) Close() error {
	c.closed()
	return c.TCPConn.Close()
}

// TCP opens a connection, which is closed when ctx is done. It is closed with a reset, so that its
// port can be reused immediately.
func (s *Session) TCP(ctx context.Context) (net.Conn, error) {
	select {
	case s.dialing <- struct{}{}:
		defer func() { <-s.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.connect(ctx)
}

func (s *Session) connect(ctx context.Context) (net.Conn, error) {
	dialer := FromSource(s.Source)
	dialer.Timeout = handshakeTimeout
	opened, err := dialer.DialContext(ctx, "tcp", s.Address)
	if err != nil {
		s.refused.Add(1)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		return nil, err
	}
	tcp, ok := opened.(*net.TCPConn)
	if !ok {
		return nil, errors.New("not a TCP connection")
	}
	_ = tcp.SetLinger(0) // if it fails, the port is reused later
	s.connections.Add(1)
	s.begin()
	now := s.open.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	var once atomic.Bool
	c := &conn{TCPConn: tcp, closed: func() {
		if once.CompareAndSwap(false, true) {
			s.open.Add(-1)
		}
	}}
	context.AfterFunc(ctx, func() { c.Close() })
	return c, nil
}

// TLS opens a connection and completes the handshake with one of the given application protocols.
func (s *Session) TLS(ctx context.Context, protocols ...string) (*tls.Conn, error) {
	select {
	case s.dialing <- struct{}{}:
		defer func() { <-s.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	raw, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, s.TLSConfig(protocols...))
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	s.handshakes.Add(1)
	return c, nil
}

// TLSConfig returns a configuration that takes the attacker as little time as possible.
func (s *Session) TLSConfig(protocols ...string) *tls.Config {
	return &tls.Config{
		ServerName: s.HostName, InsecureSkipVerify: true, NextProtos: protocols, //nolint:gosec // An attacker doesn't verify.
		CurvePreferences: []tls.CurveID{tls.X25519}, MinVersion: tls.VersionTLS13,
	}
}

// FromSource returns a dialer that connects from an address. The kernel chooses the port when it
// knows the destination, because otherwise ports run out.
func FromSource(address string) *net.Dialer {
	return &net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)},
		Control: func(_, _ string, c syscall.RawConn) error {
			var optionErr error
			err := c.Control(func(fd uintptr) {
				optionErr = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			})
			return errors.Join(err, optionErr)
		},
	}
}

// Package corpus contains attacks that break the rules of TCP, TLS, HTTP or the PROXY protocol, each
// in its own way.
package corpus

import (
	"context"
	"io"
	"maps"
	"net"
	"slices"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
)

// Attacks contains the attacks by name.
var Attacks = joined(tlsAttacks, http1Attacks, http2Attacks, heldAttacks, proxyAttacks)

// Names returns the names of the attacks, sorted.
func Names() []string { return slices.Sorted(maps.Keys(Attacks)) }

// ProxyNames returns the names of the attacks with the PROXY protocol, sorted.
func ProxyNames() []string { return slices.Sorted(maps.Keys(proxyAttacks)) }

func joined(all ...map[string]attacker.Attack) map[string]attacker.Attack {
	sum := map[string]attacker.Attack{}
	for _, attacks := range all {
		maps.Copy(sum, attacks)
	}
	return sum
}

const (
	// few is the number of connections of attacks that use each of them as much as possible, and
	// many that of attacks that hold them.
	few  = 32
	many = 1000
)

// hold waits until the server closes the connection.
func hold(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// send writes the same bytes as often as possible, until the server closes the connection. It reads
// nothing.
func send(ctx context.Context, s *attacker.Session, c io.Writer, repeated []byte) error {
	for ctx.Err() == nil {
		if _, err := c.Write(repeated); err != nil {
			return err
		}
		s.Requested()
	}
	return nil
}

// sendAndRead is like send, but also reads what the server sends.
func sendAndRead(ctx context.Context, s *attacker.Session, c net.Conn, repeated []byte) error {
	go func() { _ = hold(c) }()
	return send(ctx, s, c, repeated)
}

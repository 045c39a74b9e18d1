package corpus

import (
	"bytes"
	"context"
	"io"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
)

// signature starts a header of version 2 of the PROXY protocol.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

// The attacks with headers of the PROXY protocol. The attacker is a stranger, or a trusted proxy
// that sends nonsense.
var proxyAttacks = map[string]attacker.Attack{
	"PROXY header, version 1":            {Connections: few, Converse: proxied("PROXY TCP4 10.0.0.1 10.0.0.2 1000 443\r\n")},
	"PROXY header, version 2":            {Connections: few, Converse: proxied(signature + "\x21\x11\x00\x0c\x0a\x00\x00\x01\x0a\x00\x00\x02\x03\xe8\x01\xbb")},
	"PROXY header without an end":        {Connections: few, Converse: endlessHeader},
	"PROXY header with too much content": {Connections: few, Converse: proxied(signature + "\x21\x11\xff\xff" + string(make([]byte, 65535)))},
	"PROXY header that is cut":           {Connections: few, Converse: tcp([]byte(signature[:8]))},
}

// proxied returns an attack that sends a header before the handshake.
func proxied(header string) func(context.Context, *attacker.Session) error {
	return func(ctx context.Context, s *attacker.Session) error {
		c, err := s.TCP(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		s.Requested()
		if _, err := io.Copy(c, io.MultiReader(bytes.NewReader([]byte(header)), bytes.NewReader(hello(s)))); err != nil {
			return err
		}
		return hold(c)
	}
}

func endlessHeader(ctx context.Context, s *attacker.Session) error {
	c, err := s.TCP(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "PROXY TCP4 "); err != nil {
		return err
	}
	return sendAndRead(ctx, s, c, bytes.Repeat([]byte{'1'}, 4000))
}

package attacker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// relayOrder describes a relay.
type relayOrder struct{ Listen, Target, Source string }

// StartRelay starts a relay of TCP connections to target, as a load balancer that passes TLS
// through, and returns its address. The target sees all connections come from source. The relay
// runs until the end of the test, in as many processes as it needs for the given number of
// connections.
func StartRelay(t testing.TB, target, source string, connections int) string {
	t.Helper()
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	order := relayOrder{Listen: port.Address(), Target: target, Source: source}
	dir := t.TempDir()
	// The kernel doesn't distribute connections evenly. Each one takes two files.
	for n := range 1 + 2*connections*5/4/fileLimit() {
		p, err := self(dir, fmt.Sprintf("relay-%d", n), relayVariable, order)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Stop(grace); err != nil {
				t.Errorf("Failed to stop the relay: %v", err)
			}
		})
	}
	install.Eventually(t, "the relay to listen", func() error {
		c, err := net.DialTimeout("tcp", order.Listen, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
	return order.Listen
}

func executeRelay(ctx context.Context, encoded string) error {
	var order relayOrder
	if err := json.Unmarshal([]byte(encoded), &order); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	// Several processes listen at the same address.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var optionErr error
		err := c.Control(func(fd uintptr) {
			optionErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		return errors.Join(err, optionErr)
	}}
	listener, err := config.Listen(ctx, "tcp", order.Listen)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for {
		incoming, err := listener.Accept()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The relay was told to stop.
		}
		if err != nil {
			time.Sleep(pause) // out of files
			continue
		}
		go relay(ctx, incoming, order)
	}
}

// relay copies between a connection and a new one to the target until one of them is closed.
func relay(ctx context.Context, incoming net.Conn, order relayOrder) {
	dialer := FromSource(order.Source)
	dialer.Timeout = handshakeTimeout
	outgoing, err := dialer.DialContext(ctx, "tcp", order.Target)
	if err != nil {
		incoming.Close()
		return
	}
	// The client must receive what the target sent last, so its connection isn't reset. The other
	// one is, so that its port can be reused immediately.
	closeBoth := sync.OnceFunc(func() { incoming.Close(); reset(outgoing) })
	context.AfterFunc(ctx, closeBoth)
	go func() { defer closeBoth(); forward(outgoing, incoming) }()
	defer closeBoth()
	forward(incoming, outgoing)
}

// forward copies with a small buffer. It hides the types, because the kernel would need two more
// files for each direction.
func forward(to io.Writer, from io.Reader) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 4<<10))
}

// reset closes a connection without waiting for what was sent to arrive.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if it fails, the port is reused later
	}
	c.Close()
}

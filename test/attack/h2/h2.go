// Package h2 speaks HTTP/2 frame by frame, so that attacks can break the rules.
package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
)

// Conn is a connection after the client's preface.
type Conn struct {
	// Framer writes frames. It must be used by one goroutine only.
	Framer *http2.Framer
	// Handle is called for each frame that Read receives, if it is set.
	Handle func(http2.Frame)

	tls *tls.Conn
}

// Open opens a connection and sends the preface with the given settings.
func Open(ctx context.Context, s *attacker.Session, settings ...http2.Setting) (*Conn, error) {
	c, err := s.TLS(ctx, "h2")
	if err != nil {
		return nil, err
	}
	opened := &Conn{Framer: http2.NewFramer(c, nil), tls: c}
	opened.Framer.AllowIllegalWrites = true
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		opened.Close()
		return nil, err
	}
	if err := opened.Framer.WriteSettings(settings...); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// Close closes the connection without a goodbye.
func (c *Conn) Close() { c.tls.NetConn().Close() }

// Read starts to read frames, and to acknowledge settings and pings. The returned channel is closed
// when the connection is. The server never receives more flow control than at the start.
func (c *Conn) Read() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer c.Close()
		framer := http2.NewFramer(c.tls, c.tls)
		framer.SetMaxReadFrameSize(1 << 20)
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			switch f := frame.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() && framer.WriteSettingsAck() != nil {
					return
				}
			case *http2.PingFrame:
				if !f.IsAck() && framer.WritePing(true, f.Data) != nil {
					return
				}
			case *http2.GoAwayFrame:
				return
			}
			if c.Handle != nil {
				c.Handle(frame)
			}
		}
	}()
	return ended
}

// Headers returns a header block for a request, with a header that fills it to the given size. It
// doesn't change the compression state, so that it can be sent any number of times.
func Headers(s *attacker.Session, method, path string, size int) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	write := func(name, value string) {
		_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true}) // a buffer doesn't fail
	}
	write(":method", method)
	write(":scheme", "https")
	write(":authority", s.HostName)
	write(":path", path)
	if method == "POST" {
		write("content-type", "application/x-www-form-urlencoded")
	}
	// A backslash has one of the longest Huffman codes, so the encoder doesn't compress it.
	if fill := size - block.Len(); fill > 0 {
		write("x-fill", strings.Repeat(`\`, fill))
	}
	return block.Bytes()
}

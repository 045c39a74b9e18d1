package corpus

import (
	"context"
	"crypto/tls"
	"io"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
)

// The attacks with HTTP/1.
var http1Attacks = map[string]attacker.Attack{
	"HTTP 1 endless headers":          {Connections: few, Converse: endless("GET {get} HTTP/1.1\r\nHost: {host}\r\n", "X-Header: "+strings.Repeat("a", 1000)+"\r\n")},
	"HTTP 1 endless request line":     {Connections: few, Converse: endless("GET {get}?", strings.Repeat("a", 16<<10))},
	"HTTP 1 one header per second":    {Connections: many, Converse: slowHeaders},
	"HTTP 1 empty lines":              {Connections: few, Converse: endless("", strings.Repeat("\r\n", 1000))},
	"HTTP 1.0":                        {Connections: few, Converse: once("GET {get} HTTP/1.0\r\n\r\n")},
	"HTTP 1 pipeline without reading": {Connections: many, Converse: pipeline(false)},
	"HTTP 1 pipeline":                 {Connections: few, Converse: pipeline(true)},
	"HTTP 1 body that never arrives":  {Connections: many, Converse: once("POST {post} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")},
	"HTTP 1 body of 8 EiB":            {Connections: few, Converse: endless(post+"Content-Length: 9223372036854775807\r\n\r\n", strings.Repeat("a", 16<<10))},
	"HTTP 1 chunks of one byte":       {Connections: few, Converse: endless(post+chunked, strings.Repeat("1\r\na\r\n", 1000))},
	"HTTP 1 endless chunk extension":  {Connections: few, Converse: endless(post+chunked+"1;", strings.Repeat("a=b;", 4000))},
	"HTTP 1 endless trailers":         {Connections: few, Converse: endless(post+chunked+"0\r\n", "X-Trailer: "+strings.Repeat("a", 1000)+"\r\n")},
	"HTTP 1 upgrade to HTTP/2":        {Connections: few, Converse: once("GET {get} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n")},
}

const (
	post    = "POST {post} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	chunked = "Transfer-Encoding: chunked\r\n\r\n"
)

// open opens a connection for HTTP/1 and sends the start of a request.
func open(ctx context.Context, s *attacker.Session, request string) (*tls.Conn, error) {
	c, err := s.TLS(ctx, "http/1.1")
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, filled(s, request)); err != nil {
		c.NetConn().Close()
		return nil, err
	}
	s.Requested()
	return c, nil
}

// filled fills in the paths and the host name.
func filled(s *attacker.Session, request string) string {
	return strings.NewReplacer("{get}", s.Get, "{post}", s.Post, "{host}", s.HostName).Replace(request)
}

// once returns an attack that sends a request, or something like it, and waits.
func once(request string) func(context.Context, *attacker.Session) error {
	return func(ctx context.Context, s *attacker.Session) error {
		c, err := open(ctx, s, request)
		if err != nil {
			return err
		}
		defer c.NetConn().Close()
		return hold(c)
	}
}

// endless returns an attack that sends the start of a request, and then something without end.
func endless(request, repeated string) func(context.Context, *attacker.Session) error {
	return func(ctx context.Context, s *attacker.Session) error {
		c, err := open(ctx, s, request)
		if err != nil {
			return err
		}
		defer c.NetConn().Close()
		return sendAndRead(ctx, s, c, []byte(repeated))
	}
}

func slowHeaders(ctx context.Context, s *attacker.Session) error {
	c, err := open(ctx, s, "GET {get} HTTP/1.1\r\nHost: {host}\r\n")
	if err != nil {
		return err
	}
	defer c.NetConn().Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = hold(c)
	}()
	for {
		select {
		case <-time.After(time.Second):
		case <-ended:
			return nil
		}
		if _, err := c.Write([]byte("X-A: b\r\n")); err != nil {
			return err
		}
	}
}

// pipeline returns an attack that sends requests without waiting for the responses.
func pipeline(read bool) func(context.Context, *attacker.Session) error {
	return func(ctx context.Context, s *attacker.Session) error {
		const request = "GET {get} HTTP/1.1\r\nHost: {host}\r\n\r\n"
		c, err := open(ctx, s, request)
		if err != nil {
			return err
		}
		defer c.NetConn().Close()
		repeated := []byte(filled(s, strings.Repeat(request, 100)))
		if read {
			return sendAndRead(ctx, s, c, repeated)
		}
		return send(ctx, s, c, repeated)
	}
}

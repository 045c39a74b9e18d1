package tokenserver_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

// exchange writes raw bytes to a new connection and returns everything that it reads until the
// server closes the connection.
func (s *server) exchange(t testing.TB, raw string) []byte {
	t.Helper()
	config := s.tlsConfig()
	config.NextProtos = []string{"http/1.1"}
	conn := testkit.Value(tls.Dial("tcp", s.address(), config))(t)
	defer conn.Close()
	testkit.Do(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	// The server may reject the request and close the connection before the whole request is
	// written.
	go func() { _, _ = io.WriteString(conn, raw) }()
	got, err := io.ReadAll(conn)
	if err != nil && len(got) == 0 {
		t.Fatalf("the server did not close the connection: %v", err)
	}
	return got
}

// responses parses a sequence of responses.
func responses(t testing.TB, raw []byte) []response {
	t.Helper()
	reader := bufio.NewReader(bytes.NewReader(raw))
	var all []response
	for {
		if _, err := reader.Peek(1); errors.Is(err, io.EOF) {
			return all
		}
		r, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("%v in %q", err, raw)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatalf("%v in %q", err, raw)
		}
		all = append(all, response{r.StatusCode, r.Header, string(body)})
	}
}

// raw returns a raw token request that asks the server to close the connection.
func raw(query, headers, body string) string {
	return "POST " + tokenPath + "?" + query + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + headers +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

var date = regexp.MustCompile(`(?m)^Date: .*\r\n`)

// All authentication failures get the same response, byte for byte, except for the date. The
// response must not reveal whether the client is unknown, the secret is wrong, or the client is
// disabled.
func TestAuthenticationFailuresAreByteIdentical(t *testing.T) {
	s := startLoaded(t)
	authorization := func(value string) string { return raw(grant, "Authorization: "+value+"\r\n", "") }
	form := "Content-Type: application/x-www-form-urlencoded\r\n"
	requests := map[string]string{
		"unknown client":           authorization(basic("unknown", secret)),
		"wrong secret":             authorization(basic("billing", "wrong")),
		"client without a secret":  authorization(basic("no-secret", secret)),
		"expired":                  authorization(basic("expired", secret)),
		"secret expired":           authorization(basic("rotating", expiredSecret)),
		"suspended":                authorization(basic("suspended", secret)),
		"broken Base64":            authorization("Basic !"),
		"another scheme":           authorization("Bearer " + secret),
		"no credentials":           raw(grant, "", ""),
		"wrong secret, post":       raw(grant, form, "client_id=billing&client_secret=wrong"),
		"suspended, post":          raw(grant, form, "client_id=suspended&client_secret="+secret),
		"unknown, bad grant":       raw("grant_type=password", "Authorization: "+basic("unknown", secret)+"\r\n", ""),
		"realm suspended":          strings.Replace(authorization(basic("billing", secret)), "/acme/", "/frozen/", 1),
		"realm suspended, unknown": strings.Replace(authorization(basic("unknown", secret)), "/acme/", "/frozen/", 1),
	}
	const want = "HTTP/1.1 401 Unauthorized\r\n" +
		"Cache-Control: no-store\r\n" +
		"Content-Type: application/json;charset=UTF-8\r\n" +
		"Pragma: no-cache\r\n" +
		"Www-Authenticate: Basic realm=\"acme\", charset=\"UTF-8\"\r\n" +
		"Content-Length: 79\r\n" +
		"Connection: close\r\n\r\n" +
		`{"error":"invalid_client","error_description":"Client authentication failed."}` + "\n"
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			got := date.ReplaceAllString(string(s.exchange(t, request)), "")
			got = strings.Replace(got, `realm="frozen"`, `realm="acme"`, 1)
			testkit.Diff(t, "result", want, got)
		})
	}
}

// A malformed request line or header gets one response, then the server closes the connection.
func TestMalformedRequestsAreRejected(t *testing.T) {
	s := startLoaded(t)
	line := "POST " + tokenPath + "?" + grant + " HTTP/1.1\r\n"
	rest := "Host: " + host + "\r\nAuthorization: " + good + "\r\nConnection: close\r\n"
	tests := map[string]struct {
		raw  string
		want int
	}{
		"two Authorization headers": {line + rest + "authorization: " + good + "\r\n\r\n", 400},
		"two of different schemes":  {line + rest + "Authorization: Bearer x\r\n\r\n", 400},
		"another Host":              {strings.Replace(line+rest, host, "evil.example", 1) + "\r\n", 200},
		"an absolute URL":           {"POST https://evil.example" + tokenPath + "?" + grant + " HTTP/1.1\r\n" + rest + "\r\n", 200},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := responses(t, s.exchange(t, tc.raw))
			if len(got) != 1 || got[0].status != tc.want {
				t.Fatalf("got %+v, want one response with status %d", got, tc.want)
			}
			if tc.want == 200 {
				checkToken(t, got[0], "orders:read orders:write stock", nil)
			}
		})
	}
}

// It must not be possible to hide a second request in the body of the first. If proxies could
// disagree about the length of a request, the server sends one response and closes the connection.
func TestRequestSmugglingIsPrevented(t *testing.T) {
	s := startLoaded(t)
	hidden := "POST " + tokenPath + "?" + grant + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: " + good + "\r\nConnection: close\r\n\r\n"
	head := "POST " + tokenPath + "?" + grant + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	length := func(s string) string { return strconv.Itoa(len(s)) }
	tests := map[string]string{
		"CL and TE, hidden after the chunks": head + "Content-Length: " + length("0\r\n\r\n"+hidden) + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"TE and CL, hidden after the length": head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n3\r\na=b\r\n0\r\n\r\n" + hidden,
		"TE alone, hidden after it":          head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":                        head + "Content-Length: 3\r\nContent-Length: " + length(hidden) + "\r\n\r\na=b" + hidden,
		"TE unknown":                         head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
		"a chunk size beyond 64 bits":        head + "Transfer-Encoding: chunked\r\n\r\n10000000000000003\r\na=b\r\n0\r\n\r\n" + hidden,
		"unknown path, chunked":              "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
	}
	for name, request := range tests {
		t.Run(name, func(t *testing.T) {
			got := responses(t, s.exchange(t, request))
			if len(got) != 1 {
				t.Fatalf("got %d responses, want one: %+v", len(got), got)
			}
			for _, a := range got {
				if a.status == http.StatusOK && strings.Contains(a.body, "access_token") {
					t.Error("the hidden request got a token")
				}
			}
		})
	}
}

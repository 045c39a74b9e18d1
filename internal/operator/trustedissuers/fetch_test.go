package trustedissuers

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

// canary is in every response that must not be repeated.
const canary = "c4n4ry"

// foreign is a server of an issuer. The handlers replace its documents.
type foreign struct {
	*httptest.Server
	metadata, keys http.HandlerFunc
	requests       atomic.Int64
}

func startForeign(t *testing.T) *foreign {
	t.Helper()
	f := &foreign{}
	f.metadata = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"canary":%q}`, f.URL, f.URL+"/keys", canary)
	}
	f.keys = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keySet(t, "a")) }
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			f.metadata(w, r)
		case "/keys":
			f.keys(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.StartTLS()
	t.Cleanup(f.Close)
	return f
}

func (f *foreign) issuer() Issuer {
	return Issuer{Name: "edge", URL: f.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})}
}

// keySet returns a set of new keys.
func keySet(t testing.TB, ids ...string) []byte {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, id := range ids {
		key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id})
	}
	return testkit.Value(json.Marshal(set))(t)
}

func body(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
}

// Every document of a hostile issuer has a fixed error, which repeats nothing of it.
func TestFetch(t *testing.T) {
	zipped := func(data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(data)
			_ = z.Close()
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, code) }
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	for name, test := range map[string]struct {
		change func(*foreign, *Issuer)
		want   error // nil if the key "a" is found
	}{
		"discovery":         {func(*foreign, *Issuer) {}, nil},
		"SPIFFE bundle":     {func(f *foreign, i *Issuer) { i.URL, i.JWKSURI = "spiffe://example.org", f.URL+"/keys" }, nil},
		"other certificate": {func(_ *foreign, i *Issuer) { i.CABundle = nil }, ErrCertificate},
		"keys not found":    {func(f *foreign, _ *Issuer) { f.keys = status(503) }, badStatus(503)},
		"redirect of keys":  {func(f *foreign, _ *Issuer) { f.keys = redirect("http://169.254.169.254/" + canary) }, ErrRedirect},
		"huge keys": {func(f *foreign, _ *Issuer) {
			f.keys = body(append(keySet(t, "a"), bytes.Repeat([]byte(" "), maxBody)...))
		}, ErrTooLarge},
		"compressed zeros": {func(f *foreign, _ *Issuer) { f.keys = zipped(make([]byte, 1<<20)) }, ErrKeySet}, // ErrTooLarge if they were expanded
		"endless header": {func(f *foreign, _ *Issuer) {
			f.metadata = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }
		}, ErrResponse},
		"not HTTP": {func(f *foreign, _ *Issuer) {
			f.metadata = func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					_, _ = io.WriteString(conn, canary+"\n")
					conn.Close()
				}
			}
		}, ErrResponse},
		"no keys":        {func(f *foreign, _ *Issuer) { f.keys = body([]byte(`{"keys":[]}`)) }, ErrNoKeys},
		"private key":    {func(f *foreign, _ *Issuer) { f.keys = body([]byte(`{"keys":[{"kty":"oct","k":"` + canary + `"}]}`)) }, ErrPrivateKey},
		"server is down": {func(f *foreign, _ *Issuer) { f.Close() }, ErrConnection},
		"unknown host":   {func(_ *foreign, i *Issuer) { i.URL = "https://issuer.invalid" }, ErrHost},
	} {
		t.Run(name, func(t *testing.T) {
			f := startForeign(t)
			issuer := f.issuer()
			test.change(f, &issuer)
			g := testkit.Value(newGetter(issuer, true))(t)
			keys, err := g.keys(t.Context())
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if err != nil && (keys != nil || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "127.0.0.1")) {
				t.Errorf("%d keys and error %v", len(keys), err)
			}
			if err == nil && (len(keys) != 1 || keys[0].ID() != "a") {
				t.Errorf("keys %v, want a", keys)
			}
		})
	}
}

// The operator stops reading a large response, so that it doesn't fill its memory.
func TestFetchStopsReading(t *testing.T) {
	f, sent := startForeign(t), make(chan int, 1)
	f.metadata = func(w http.ResponseWriter, _ *http.Request) {
		total := 0
		for chunk := make([]byte, 1<<20); total < 64<<20; {
			n, err := w.Write(chunk)
			if total += n; err != nil {
				break
			}
		}
		sent <- total
	}
	g := testkit.Value(newGetter(f.issuer(), true))(t)
	if _, err := g.keys(t.Context()); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("error %v, want %v", err, ErrTooLarge)
	}
	if n := <-sent; n >= 64<<20 {
		t.Errorf("the server sent %d bytes", n)
	}
}

// Local addresses get no connection, also if a host name resolves to one.
func TestFetchDeniesLocalAddresses(t *testing.T) {
	f := startForeign(t)
	_, port, err := net.SplitHostPort(f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Issuer){
		"address":             func(*Issuer) {},
		"host name":           func(i *Issuer) { i.URL = "https://localhost:" + port },
		"mapped":              func(i *Issuer) { i.URL = "https://[::ffff:127.0.0.1]:" + port },
		"metadata of a cloud": func(i *Issuer) { i.URL = "https://169.254.169.254" },
	} {
		t.Run(name, func(t *testing.T) {
			issuer := f.issuer()
			change(&issuer)
			g := testkit.Value(newGetter(issuer, false))(t)
			if _, err := g.keys(t.Context()); !errors.Is(err, ErrAddress) {
				t.Errorf("error %v, want %v", err, ErrAddress)
			}
		})
	}
	if f.requests.Load() > 0 {
		t.Error("the server got requests")
	}
}

// Each issuer has a connection of its own, without a proxy: the proxy would get the address that only
// the operator may check.
func TestFetchIgnoresProxy(t *testing.T) {
	f := startForeign(t)
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	g := testkit.Value(newGetter(f.issuer(), true))(t)
	if proxy := g.client.Transport.(*http.Transport).Proxy; proxy != nil {
		t.Error("the transport has a proxy")
	}
	if _, err := g.keys(t.Context()); err != nil {
		t.Error(err)
	}
}

// Both requests together take at most 10 seconds, even if a server sends a byte now and then.
func TestFetchTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &getter{issuer: Issuer{URL: "https://issuer.example.com"}, client: &http.Client{Transport: trickle{}}}
		started := time.Now()
		if _, err := g.keys(t.Context()); !errors.Is(err, ErrTimeout) {
			t.Errorf("error %v, want %v", err, ErrTimeout)
		}
		if took := time.Since(started); took != fetchTimeout {
			t.Errorf("the fetch took %s", took)
		}
	})
}

// trickle responds with metadata after 8 seconds, and then with an endless, slow body.
type trickle struct{}

func (trickle) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "openid-configuration") {
		time.Sleep(8 * time.Second)
		metadata := `{"issuer":"https://issuer.example.com","jwks_uri":"https://issuer.example.com/keys"}`
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(metadata))}, nil
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(slowBody{r.Context()})}, nil
}

type slowBody struct{ ctx context.Context }

func (b slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(100 * time.Millisecond):
		p[0] = ' '
		return 1, nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func TestIsLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8":           false,
		"10.1.2.3":          false, // RFC 1918: other clusters are there
		"100.64.0.1":        false, // RFC 6598
		"169.253.255.255":   false,
		"fd12:3456:789a::1": false, // RFC 4193
		"::2":               true,  // contains 0.0.0.2

		"0.0.0.0":         true,
		"127.0.0.1":       true,
		"169.254.169.254": true, // the metadata services of AWS, Azure, and Google
		"100.100.100.200": true,
		"168.63.129.16":   true,
		"192.0.0.192":     true,
		"255.255.255.255": true,
		"::":              true,
		"::1":             true,
		"fe80::1":         true,
		"ff02::1":         true,
		"fd00:ec2::254":   true,
		"fd20:ce::254":    true,

		"::ffff:169.254.169.254":       true,
		"::127.0.0.1":                  true,
		"64:ff9b::169.254.169.254":     true,
		"64:ff9b::8.8.8.8":             false,
		"64:ff9b:1::169.254.169.254":   true, // a prefix of 96 bits
		"64:ff9b:1::8.8.8.8":           false,
		"64:ff9b:1:a9fe:a9:fe00::":     true, // a prefix of 48 bits with 169.254.169.254
		"64:ff9b:1:808:8:800::":        false,
		"2002:a9fe:a9fe::":             true,
		"2002:808:808::1":              false,
		"2002:6440:1::169.254.169.254": false, // only the first 4 bytes are an address
	} {
		t.Run(address, func(t *testing.T) {
			if got := isLocal(netip.MustParseAddr(address)); got != want {
				t.Errorf("local: %t, want %t", got, want)
			}
			err := denyLocal(t.Context(), "tcp", netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), nil)
			if errors.Is(err, ErrAddress) != want {
				t.Errorf("error %v, want the address denied: %t", err, want)
			}
		})
	}
	if err := denyLocal(t.Context(), "tcp", "localhost:443", nil); !errors.Is(err, ErrAddress) {
		t.Errorf("error %v for a host name, want %v", err, ErrAddress)
	}
}

func TestParseMetadata(t *testing.T) {
	const issuer = "https://issuer.example.com/a"
	const good = "https://keys.example.net/a?version=1"
	for name, test := range map[string]struct {
		document string
		want     error
	}{
		"keys at another host": {`{"issuer":"` + issuer + `","jwks_uri":"` + good + `"}`, nil},
		"slash at the end":     {`{"issuer":"` + issuer + `/","jwks_uri":"` + good + `"}`, ErrIssuer},
		"HTTP":                 {`{"issuer":"` + issuer + `","jwks_uri":"http://keys.example.net"}`, ErrMetadata},
		"user information":     {`{"issuer":"` + issuer + `","jwks_uri":"https://a@keys.example.net"}`, ErrMetadata},
		"fragment":             {`{"issuer":"` + issuer + `","jwks_uri":"https://keys.example.net/#"}`, ErrMetadata},
		"no host":              {`{"issuer":"` + issuer + `","jwks_uri":"https:///keys"}`, ErrMetadata},
		"empty":                {``, ErrMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseMetadata([]byte(test.document), issuer)
			if !errors.Is(err, test.want) || (err == nil) != (got == good) {
				t.Errorf("URL %q and error %v, want %v", got, err, test.want)
			}
		})
	}
}

// FuzzParseMetadata checks that metadata leads to an HTTPS URL or to one of the fixed errors.
func FuzzParseMetadata(f *testing.F) {
	const issuer = "https://issuer.example.com"
	f.Add([]byte(`{"issuer":"https://issuer.example.com","jwks_uri":"https://issuer.example.com/keys"}`))
	f.Add([]byte(`{"issuer":"https://issuer.example.com","jwks_uri":"https://a:b@[::1%25eth0]:1/#"}`))
	f.Add([]byte(`{"issuer":"https://other.example.com"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		location, err := parseMetadata(data, issuer)
		if err != nil {
			if location != "" || (!errors.Is(err, ErrMetadata) && !errors.Is(err, ErrIssuer)) {
				t.Fatalf("URL %q and error %v", location, err)
			}
			return
		}
		parsed, err := url.Parse(location)
		if err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil || parsed.Fragment != "" {
			t.Fatalf("URL %q: %v", location, err)
		}
	})
}

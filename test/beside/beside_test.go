//go:build beside

package beside_test

import (
	"cmp"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

var only = flag.String("beside.only", "", "regular expression of the headings of the programs to run")

// selected reports whether the tests run the program with this heading.
func selected(t *testing.T, heading string) bool {
	t.Helper()
	matches, err := regexp.MatchString(*only, heading)
	if err != nil {
		t.Fatal(err)
	}
	return matches
}

// outage is how long the token service is stopped.
const outage = 30 * time.Second

// run is a program in the realms whose keys change, and what its callers have seen.
type run struct {
	program
	acme, moved instance

	mu   sync.Mutex
	seen map[string]string
}

func (r *run) see(name, result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[name] = result
}

// TestPrograms runs all programs at the same time, because a rotation of the signing key takes 10 minutes. With
// -short, it ends before the rotation.
func TestPrograms(t *testing.T) {
	s := startService(t)
	var runs []*run
	for _, p := range programs {
		if !selected(t, p.section) {
			continue
		}
		runs = append(runs, &run{program: p, acme: p.start(t, s.setup(t, p.page, p.section, p.api, acme)), moved: p.start(t, s.setup(t, p.page, p.section, p.api, moved)), seen: map[string]string{}})
	}
	// each calls f for all programs at the same time.
	each := func(f func(*run)) {
		var all sync.WaitGroup
		for _, r := range runs {
			all.Go(func() { f(r) })
		}
		all.Wait()
	}
	// tokens returns a token for each API.
	tokens := func(realm, client string) map[*api]string {
		all := map[*api]string{}
		for _, a := range apis {
			all[a] = s.mustToken(t, realm, a, client)
		}
		return all
	}

	usual, usualMoved := tokens(acme, clientUsual), tokens(moved, clientUsual)
	each(func(r *run) {
		r.see("valid", r.acme.call(usual[r.api]))
		if got := r.moved.call(usualMoved[r.api]); got != r.seen["valid"] {
			t.Errorf("%s: a valid token of the second realm: %s", r.section, got)
		}
		r.see("no token", r.acme.call(""))
	})
	for name, from := range map[string]struct{ realm, client string }{
		"two audiences":    {acme, clientTwoAudiences},
		"another audience": {acme, clientOtherAudience},
		"another realm":    {otherRealm, clientUsual},
		"wrong scope":      {acme, clientWrongScope},
		"bound":            {acme, clientBound},
		"delegated":        {acme, clientAgent},
	} {
		token := tokens(from.realm, from.client)
		each(func(r *run) { r.see(name, r.acme.call(token[r.api])) })
	}
	// From now on, no token is signed with an unknown key, so programs that load keys only then don't know the next ones.
	s.rotate(t)
	published := time.Now()

	t.Log("suspend a client, and wait for tokens to expire")
	brief := tokens(acme, clientBrief)
	suspended := tokens(acme, clientSuspended)
	each(func(r *run) {
		for name, token := range map[string]string{"brief": brief[r.api], "suspended": suspended[r.api]} {
			if got := r.acme.call(token); got != r.seen["valid"] {
				t.Errorf("%s: the token of %s before the change: %s", r.section, name, got)
			}
		}
	})
	s.suspend(t)
	time.Sleep(briefly + time.Minute) // Some programs allow a clock difference.
	each(func(r *run) {
		r.see("expired", r.acme.call(brief[r.api]))
		r.see("suspended", r.acme.call(suspended[r.api]))
	})

	t.Log("the token service doesn't respond")
	unseen := tokens(acme, clientUsual) // Nobody remembers it.
	resume := s.pause(t)
	each(func(r *run) { r.see("no response", r.acme.call(unseen[r.api])) })
	resume()

	t.Log("other algorithms, and another CA")
	for _, p := range runs {
		s.testVariants(t, p)
	}

	if testing.Short() {
		report(t, runs)
		return
	}
	t.Logf("wait for the new keys for another %s", time.Until(published.Add(publishAhead)).Round(time.Second))
	each(func(r *run) {
		for _, i := range []instance{r.acme, r.moved} {
			if i.refresh != nil {
				if err := i.refresh(); err != nil {
					t.Errorf("%s: %v", r.section, err)
				}
			}
		}
	})
	for realm, before := range map[string]map[*api]string{acme: usual, moved: usualMoved} {
		for _, a := range apis {
			eventually(t, publishAhead+2*time.Minute, "the new keys to sign", func() bool {
				token, err := s.token(t, realm, a, clientUsual)
				return err == nil && keyID(t, token) != keyID(t, before[a])
			})
		}
	}
	renewed, renewedMoved := tokens(acme, clientUsual), tokens(moved, clientUsual)
	s.stop(t)
	each(func(r *run) {
		r.see("outage", r.acme.call(usual[r.api]))
		r.see("outage with a new key", r.acme.call(renewed[r.api]))
	})
	time.Sleep(outage)
	s.start(t)
	each(func(r *run) {
		r.see("new key", r.recovered(r.acme, renewed[r.api]))
		r.see("new algorithm", r.recovered(r.moved, renewedMoved[r.api]))
	})
	report(t, runs)
}

// recovered calls until the token is accepted, at most for a minute.
func (r *run) recovered(i instance, token string) string {
	started := time.Now()
	for {
		got := i.call(token)
		taken := time.Since(started)
		switch {
		case got == r.seen["valid"] && taken > 3*time.Second:
			return got + " within a minute"
		case got == r.seen["valid"] || taken > time.Minute:
			return got
		}
		time.Sleep(time.Second)
	}
}

// testVariants runs a program with the realms of other algorithms, and without the CA of the token service.
func (s *service) testVariants(t *testing.T, r *run) {
	t.Helper()
	for _, algorithm := range algorithms {
		t.Run(r.section+" "+string(algorithm), func(t *testing.T) {
			i := r.start(t, s.setup(t, r.page, r.section, r.api, realmOf(algorithm)))
			r.see(string(algorithm), i.call(s.mustToken(t, realmOf(algorithm), r.api, clientUsual)))
		})
	}
	t.Run(r.section+" other CA", func(t *testing.T) {
		other := s.setup(t, r.page, r.section, r.api, acme)
		system, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
		if err != nil {
			t.Fatal(err)
		}
		other.write(t, filepath.Base(other.authority), string(system))
		r.see("other CA", r.start(t, other).call(s.mustToken(t, acme, r.api, clientUsual)))
	})
}

// report prints what callers have seen, and compares it with the pages.
func report(t *testing.T, runs []*run) {
	t.Helper()
	var table strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&table, "\n%s\n", r.section)
		for _, name := range slices.Sorted(maps.Keys(r.seen)) {
			fmt.Fprintf(&table, "  %-22s %s\n", name, r.seen[name])
		}
		want := readSection(t, r.page, r.section).outcomes("Request")
		maps.DeleteFunc(want, func(name, _ string) bool { return testing.Short() && r.seen[name] == "" })
		if diff := gocmp.Diff(want, r.seen); diff != "" {
			t.Errorf("%s (-docs/works-with/%s +seen):\n%s", r.section, r.page, diff)
		}
	}
	t.Log(table.String())
}

// TestClients runs the libraries that get tokens, one after the other.
func TestClients(t *testing.T) {
	s := startService(t)
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, claim(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "jti"))
	}))
	t.Cleanup(api.Close)
	busy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":"temporarily_unavailable","error_description":"The server is overloaded."}`)
	}))
	t.Cleanup(busy.Close)
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})) // of both servers
	for _, c := range clients {
		if !selected(t, c.section) {
			continue
		}
		t.Run(c.section, func(t *testing.T) {
			seen := map[string]string{}
			// start starts the program with a mounted Secret, and returns it and the setup.
			start := func(name, issuer, secret string) (instance, setup) {
				u := s.setup(t, c.page, c.section, orders, acme)
				authority, err := os.ReadFile(s.authority())
				if err != nil {
					t.Fatal(err)
				}
				for file, content := range map[string]string{
					v1beta1.SecretKeyCACrt: certificate + string(authority), v1beta1.SecretKeyClientID: clientID(acme, orders, name),
					v1beta1.SecretKeyClientSecret: cmp.Or(secret, s.secret(t, acme, orders, name)),
					v1beta1.SecretKeyIssuer:       issuer, v1beta1.SecretKeyTokenURL: issuer + "/oauth2/token",
				} {
					u.write(t, file, content)
				}
				return c.start(t, u), u
			}
			get := func(i instance, _ setup) string { return varying.ReplaceAllString(i.call(api.URL), "...") }
			issuer := s.issuer(acme)
			usual, _ := start(clientUsual, issuer, "")
			first := usual.call(api.URL)
			seen["first"] = cond(isToken(first), "sends a token", first)
			second := usual.call(api.URL)
			seen["second"] = cond(isToken(second) && second == first, "sends the same token", second)
			brief, _ := start(clientBrief, issuer, "")
			first = brief.call(api.URL)
			time.Sleep(briefly + time.Second)
			second = brief.call(api.URL)
			seen["after expiration"] = cond(isToken(second) && first != second, "sends a new token", second)
			rotated, u := start(clientUsual, issuer, "rk_wrong")
			seen["wrong secret"] = get(rotated, u)
			u.write(t, v1beta1.SecretKeyClientSecret, s.secret(t, acme, orders, clientUsual))
			second = rotated.call(api.URL)
			seen["after a new secret"] = cond(isToken(second), "sends a new token", second)
			seen["wrong scope"] = get(start(clientWrongScope, issuer, ""))
			limited, u := start(clientBound, issuer, "rk_wrong")
			for range 5 { // One request can fail every few seconds.
				s.exhaust(t)
				if seen["429"] = get(limited, u); seen["429"] != seen["wrong secret"] {
					break
				}
			}
			seen["503"] = get(start(clientUsual, busy.URL, ""))
			waiting, u := start(clientUsual, issuer, "")
			resume := s.pause(t)
			seen["no response"] = get(waiting, u)
			resume()
			seen["outage"] = get(start(clientUsual, "https://localhost:1/acme", ""))
			want := readSection(t, c.page, c.section).outcomes("Request")
			for name, text := range want { // The page shortens long messages.
				if start, ok := strings.CutSuffix(text, " ..."); ok && strings.HasPrefix(seen[name], start) {
					seen[name] = text
				}
			}
			if diff := gocmp.Diff(want, seen); diff != "" {
				t.Errorf("(-docs/works-with/%s +seen):\n%s", c.page, diff)
			}
		})
	}
}

// TestRabbitMQConnections checks what the page says about connections whose token has expired.
func TestRabbitMQConnections(t *testing.T) {
	const heading = "RabbitMQ"
	if !selected(t, heading) {
		return
	}
	s := startService(t)
	u := s.setup(t, "rabbitmq.md", heading, rabbit, acme)
	rabbitMQ(t, u)
	brief := s.mustToken(t, acme, rabbit, clientBrief)
	expiration := strconv.FormatInt(time.Now().Add(briefly).Unix(), 10)
	command := exec.CommandContext(t.Context(), "/usr/bin/python3", u.write(t, "connections.py", rabbitMQConnections), u.address, expiration)
	command.Stdin, command.Stderr = strings.NewReader(brief+" "+s.mustToken(t, acme, rabbit, clientUsual)), os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var publisher, consumer int
	if _, err := fmt.Sscan(string(out), &publisher, &consumer); err != nil || publisher > 90 || consumer < 115 {
		t.Errorf("%d seconds after the expiration the publisher still works, and the consumer after %d: %v", publisher, consumer, err)
	}
	t.Logf("publisher until %d s, consumer until %d s after the expiration", publisher, consumer)
}

// libJWTMain exits with the error number of libjwt.
const libJWTMain = `
#include <jwt.h>
#include <stdio.h>

int main(void) {
    char token[8192];
    jwt_t *jwt;
    return scanf("%8191s", token) == 1 ? jwt_decode(&jwt, token, NULL, 0) : -1;
}
`

// TestLibJWT checks what the page says about a library that accepts no token, not even without a key.
func TestLibJWT(t *testing.T) {
	const heading = "C: cjose"
	if !selected(t, heading) {
		return
	}
	s := startService(t)
	u := s.setup(t, "libraries.md", heading, orders, acme)
	u.write(t, "main.c", libJWTMain)
	command := exec.CommandContext(t.Context(), u.compile(t, "gcc main.c -ljwt"))
	command.Stdin = strings.NewReader(s.mustToken(t, acme, orders, clientUsual))
	if err := command.Run(); command.ProcessState.ExitCode() != int(syscall.EINVAL) {
		t.Errorf("libjwt: %v, want EINVAL", err)
	}
}

// varying matches what differs from one run to the next in messages.
var varying = regexp.MustCompile(`0x[0-9a-f]+|localhost:[0-9]+|port[ =:]+[0-9]+`)

// isToken reports whether the API got a token.
func isToken(response string) bool { return response != "" && !strings.Contains(response, " ") }

func cond(holds bool, yes, no string) string {
	if holds {
		return yes
	}
	return no
}

// exhaust sends wrong secrets of a client until the token service responds with 429.
func (s *service) exhaust(t *testing.T) {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {clientID(acme, orders, clientBound)}, "client_secret": {"rk_wrong"}}
	for {
		response, err := s.client.PostForm(s.issuer(acme)+"/oauth2/token", form)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			return
		}
	}
}

package verify_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/realmkeeper/realmkeeper/api/verify"
)

// TestDraftVector checks the example of draft-ietf-oauth-status-list, sections 4.1 and 4.2.
func TestDraftVector(t *testing.T) {
	bits, err := verify.Inflate("eNrbuRgAAhcBXQ")
	if err != nil || !bytes.Equal(bits, []byte{0xb9, 0xa3}) {
		t.Fatalf("got %x, %v", bits, err)
	}
	r := newRealm(t)
	r.publish(r.list(r.listClaims(object{"status_list": object{"bits": 1, "lst": "eNrbuRgAAhcBXQ"}})))
	v := r.verifier(nil)
	for index, invalid := range []int{1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1} {
		var want error
		if invalid == 1 {
			want = verify.ErrRevoked
		}
		if _, err := v.Verify(t.Context(), r.token(status(index))); !errors.Is(err, want) {
			t.Errorf("index %d: got %v, want %v", index, err, want)
		}
	}
	if _, err := v.Verify(t.Context(), r.token(status(16))); !errors.Is(err, verify.ErrListTooShort) {
		t.Error(err)
	}
}

// TestInvalidListsAreRejected checks the reason for each list, that the token is then neither valid nor
// revoked, and that the same list doesn't replace a valid one.
func TestInvalidListsAreRejected(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		response func(*realm) http.HandlerFunc
		list     func(*realm) string
		want     error
	}{
		"largest that can't be compressed": {list: func(r *realm) string {
			bits := make([]byte, 1<<17)
			_, _ = rand.Read(bits)
			bits[0] = 0
			return r.list(r.listClaims(object{"status_list": object{"bits": 1, "lst": deflate(bits)}}))
		}},
		"other typ": {list: func(r *realm) string {
			return sign(t, r.listKey().Key, r.listHeader().with(object{"typ": "at+jwt"}), r.listClaims(nil))
		}, want: verify.ErrListType},
		"access token": {list: func(r *realm) string { return r.token(nil) }, want: verify.ErrListType},
		"other media type": {response: func(r *realm) http.HandlerFunc {
			list := r.list(r.listClaims(nil))
			return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(list)) }
		}, want: verify.ErrListType},
		"other key": {list: func(r *realm) string {
			return sign(t, newKey(t).Key, r.listHeader(), r.listClaims(nil))
		}, want: verify.ErrListSignature},
		"key for tokens": {list: func(r *realm) string {
			return sign(t, r.key().Key, r.header(object{"typ": "statuslist+jwt"}), r.listClaims(nil))
		}, want: verify.ErrListSignature},
		"unknown key": {list: func(r *realm) string {
			return sign(t, r.listKey().Key, r.listHeader().with(object{"kid": "x"}), r.listClaims(nil))
		}, want: verify.ErrListSignature},
		"not signed": {list: func(r *realm) string {
			return sign(t, []byte("x"), r.listHeader().with(object{"alg": "none"}), r.listClaims(nil))
		}, want: verify.ErrListSignature},
		"other realm":      {list: changed(object{"iss": issuer + "2"}), want: verify.ErrListIssuer},
		"no issuer":        {list: changed(object{"iss": nil}), want: verify.ErrListIssuer},
		"other list":       {list: changed(object{"sub": listURI + "1"}), want: verify.ErrListSubject},
		"no sub":           {list: changed(object{"sub": nil}), want: verify.ErrListSubject},
		"expired":          {list: changed(object{"exp": now.Unix()}), want: verify.ErrListExpired},
		"issued a day ago": {list: changed(object{"iat": now.Add(-24 * time.Hour).Unix()}), want: verify.ErrListExpired},
		"from the future":  {list: changed(object{"iat": now.Add(2 * time.Minute).Unix()}), want: verify.ErrListNotYetValid},
		"within the skew":  {list: changed(object{"iat": now.Add(20 * time.Second).Unix()})},
		"no iat":           {list: changed(object{"iat": nil}), want: verify.ErrListMalformed},
		"no exp":           {list: changed(object{"exp": nil}), want: verify.ErrListMalformed},
		"no list":          {list: changed(object{"status_list": nil}), want: verify.ErrListMalformed},
		"two bits":         {list: changed(object{"status_list": object{"bits": 2, "lst": deflate(make([]byte, 128))}}), want: verify.ErrListMalformed},
		"no base64":        {list: changed(object{"status_list": object{"bits": 1, "lst": "***"}}), want: verify.ErrListMalformed},
		"no zlib":          {list: changed(object{"status_list": object{"bits": 1, "lst": "AAAA"}}), want: verify.ErrListMalformed},
		"truncated zlib":   {list: changed(object{"status_list": object{"bits": 1, "lst": deflate(make([]byte, 128))[:8]}}), want: verify.ErrListMalformed},
		"other checksum":   {list: changed(object{"status_list": object{"bits": 1, "lst": "eNrbuRgAAhcBXg"}}), want: verify.ErrListMalformed},
		"not a JWT":        {list: func(*realm) string { return "{}" }, want: verify.ErrListMalformed},
		"too many entries": {list: changed(object{"status_list": object{"bits": 1, "lst": deflate(make([]byte, 1<<17+1))}}), want: verify.ErrListTooLarge},
		"bomb":             {list: changed(object{"status_list": object{"bits": 1, "lst": bomb()}}), want: verify.ErrListTooLarge},
		"huge response":    {list: func(*realm) string { return strings.Repeat("x", 300<<10) }, want: verify.ErrListTooLarge},
		"endless response": {response: func(*realm) http.HandlerFunc { return endless }, want: verify.ErrListTooLarge},
		"not found":        {response: func(*realm) http.HandlerFunc { return http.NotFound }, want: verify.ErrStatusUnavailable},
		"server error":     {response: func(*realm) http.HandlerFunc { return unavailable }, want: verify.ErrStatusUnavailable},
		"no response":      {response: func(*realm) http.HandlerFunc { return hang }, want: verify.ErrStatusUnavailable},
		"redirect":         {response: func(*realm) http.HandlerFunc { return redirectToValid }, want: verify.ErrStatusUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(now)) // the bubble begins in 2000
				r := newRealm(t)
				var loaded atomic.Value
				v := r.verifier(func(o *verify.Options) {
					o.Metrics.Loaded = func(url string, _ time.Duration, err error) {
						if url == listURI {
							loaded.Store(fmt.Errorf("%w", err))
						}
					}
				})
				if test.list != nil {
					r.publish(test.list(r))
				} else {
					r.respond(listPath, test.response(r))
				}
				check := func(wantUnavailable bool) {
					t.Helper()
					_, err := v.Verify(t.Context(), r.token(status(7)))
					if wantUnavailable != (errors.Is(err, verify.ErrStatusUnavailable) && errors.Is(err, test.want)) || !wantUnavailable && err != nil {
						t.Errorf("got %v, want %v", err, test.want)
					}
				}
				check(test.want != nil)
				if err, _ := loaded.Load().(error); test.want != nil && !errors.Is(test.want, verify.ErrStatusUnavailable) && !errors.Is(err, test.want) {
					t.Errorf("the metric has %v, want %v", err, test.want)
				}
				valid := r.listClaims(object{"iat": now.Add(-time.Minute).Unix()})
				r.publish(r.list(valid))
				time.Sleep(10 * time.Second)
				synctest.Wait()
				check(false)
				if test.list != nil {
					r.publish(test.list(r))
				} else {
					r.respond(listPath, test.response(r))
				}
				time.Sleep(20 * time.Second)
				check(false)
			})
		})
	}
}

func changed(changes object) func(*realm) string {
	return func(r *realm) string { return r.list(r.listClaims(changes)) }
}

func redirectToValid(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, listURI, http.StatusFound)
}

// TestBombIsNotDecompressed checks how much memory a list and a response take that are too large.
func TestBombIsNotDecompressed(t *testing.T) {
	list := bomb()
	if allocated := allocatedBy(func() {
		if _, err := verify.Inflate(list); !errors.Is(err, verify.ErrListTooLarge) {
			t.Error(err)
		}
	}); allocated > 4<<20 {
		t.Errorf("%d bytes", allocated)
	}
}

func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// bomb is 16 MiB in 16 KiB.
var bomb = sync.OnceValue(func() string { return deflate(make([]byte, 16<<20)) })

func endless(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/statuslist+jwt")
	for range 1 << 10 {
		_, _ = w.Write(make([]byte, 1<<10))
	}
}

// live serves lists as a realm does, with the revoked indexes.
type live struct {
	*realm

	revoked atomic.Pointer[[]int]
}

func newLive(t *testing.T, changes object) *live {
	l := &live{realm: newRealm(t)}
	l.revoke()
	l.respond(listPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		w.Header().Set("Cache-Control", "max-age=86400") // HTTP caching is ignored
		_, _ = w.Write([]byte(l.list(l.listClaims(changes, *l.revoked.Load()...))))
	})
	return l
}

func (l *live) revoke(indexes ...int) { l.revoked.Store(&indexes) }

// TestRevocation checks that a token is rejected and accepted again at most one TTL after its entry changed,
// and that no token waits for a list that is in use.
func TestRevocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, nil)
		var ages []time.Duration
		v := l.verifier(func(o *verify.Options) {
			o.Metrics.Checked = func(age time.Duration) { ages = append(ages, age) }
		})
		token := l.token(status(7))
		verified := func() error {
			start := time.Now()
			_, err := v.Verify(t.Context(), token)
			if waited := time.Since(start); waited != 0 {
				t.Errorf("waited %s", waited)
			}
			return err
		}
		for range 3 {
			if err := verified(); err != nil {
				t.Error(err)
			}
			l.revoke(6, 7)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if err := verified(); !errors.Is(err, verify.ErrRevoked) {
				t.Error(err)
			}
			l.revoke(6, 8)
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		if oldest := slices.Max(ages); len(ages) != 6 || oldest > time.Second {
			t.Errorf("ages of the list: %v", ages)
		}
	})
}

// TestRefresh checks how often a list is loaded: every TTL, which has limits, until it isn't used any more.
func TestRefresh(t *testing.T) {
	for name, test := range map[string]struct {
		ttl  any
		want int // in a minute
	}{
		"10 s":     {10, 6},
		"fraction": {7.5, 8},
		"too low":  {0.001, 12},
		"negative": {-5, 12},
		"none":     {nil, 12},
		"too high": {1e300, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLive(t, object{"ttl": test.ttl})
				v := l.verifier(nil)
				token := l.token(status(7).with(object{"exp": time.Now().Add(24 * time.Hour).Unix()}))
				for range 10 { // Several tokens cause one request.
					go func() {
						if _, err := v.Verify(t.Context(), token); err != nil {
							t.Error(err)
						}
					}()
				}
				synctest.Wait()
				first := l.requestsOf(listPath)
				time.Sleep(time.Minute + time.Millisecond)
				if got := l.requestsOf(listPath) - first; first != 1 || got != test.want {
					t.Errorf("%d requests, then %d in a minute, want %d", first, got, test.want)
				}
				time.Sleep(3 * time.Hour)
				idle := l.requestsOf(listPath)
				time.Sleep(time.Hour)
				if got := l.requestsOf(listPath); got != idle {
					t.Errorf("%d requests without tokens", got-idle)
				}
				l.revoke(7) // A token that arrives later waits for the current list.
				if _, err := v.Verify(t.Context(), token); !errors.Is(err, verify.ErrRevoked) {
					t.Error(err)
				}
			})
		})
	}
}

// TestListIsUnavailable checks that the last list remains until it expires, without delay, and what each
// policy does before there is one and after it has expired.
func TestListIsUnavailable(t *testing.T) {
	for name, test := range map[string]struct {
		policy                    verify.StatusPolicy
		before, until, after, has error
	}{
		"if present":  {policy: verify.StatusIfPresent, before: verify.ErrStatusUnavailable, until: verify.ErrRevoked, after: verify.ErrStatusUnavailable},
		"required":    {policy: verify.StatusRequired, before: verify.ErrStatusUnavailable, until: verify.ErrRevoked, after: verify.ErrStatusUnavailable, has: verify.ErrStatus},
		"best effort": {policy: verify.StatusBestEffort, until: verify.ErrRevoked, after: verify.ErrRevoked},
		"ignored":     {policy: verify.StatusIgnored},
	} {
		for failure, response := range map[string]http.HandlerFunc{"error": unavailable, "not found": http.NotFound, "no response": hang} {
			t.Run(name+", "+failure, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLive(t, nil)
					working := l.responses[listPath]
					l.revoke(7)
					unchecked := 0
					v := l.verifier(func(o *verify.Options) {
						o.Status = test.policy
						o.Metrics.Unchecked = func(error) { unchecked++ }
					})
					check := func(when string, changes object, want error) {
						t.Helper()
						changes = changes.with(object{"exp": time.Now().Add(24 * time.Hour).Unix()})
						if _, err := v.Verify(t.Context(), l.token(changes)); !errors.Is(err, want) {
							t.Errorf("%s: got %v, want %v", when, err, want)
						}
					}
					check("without status", object{}, test.has)
					l.respond(listPath, response)
					check("before", status(7), test.before)
					l.respond(listPath, working)
					time.Sleep(10 * time.Second)
					synctest.Wait()
					check("with the list", status(7), test.until)
					l.respond(listPath, response)
					for range 50 {
						time.Sleep(time.Minute + time.Second) // each time at another point between two loads
						start := time.Now()
						check("until it expires", status(7), test.until)
						if time.Since(start) != 0 {
							t.Errorf("waited %s", time.Since(start))
						}
					}
					time.Sleep(10 * time.Minute)
					check("after", status(7), test.after)
					time.Sleep(time.Minute)
					start := time.Now()
					check("later", status(7), test.after)
					if time.Since(start) != 0 {
						t.Errorf("waited %s after the list has expired", time.Since(start))
					}
					if want := test.policy == verify.StatusBestEffort; (unchecked == 1) != want {
						t.Errorf("%d tokens without a list", unchecked)
					}
					l.respond(listPath, working)
					time.Sleep(10 * time.Second)
					synctest.Wait()
					check("again", status(7), test.until)
				})
			})
		}
	}
}

// TestBestEffortRemembersRevocations checks that an attacker who interrupts the connection to the realm can't make a
// revoked token valid by waiting until the list expires, and that other tokens are accepted.
func TestBestEffortRemembersRevocations(t *testing.T) {
	for name, outage := range map[string]time.Duration{"in use": 2 * time.Hour, "much later": 3 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLive(t, nil)
				working := l.responses[listPath]
				l.revoke(7)
				unchecked := 0
				v := l.verifier(func(o *verify.Options) {
					o.Status = verify.StatusBestEffort
					o.Metrics.Unchecked = func(error) { unchecked++ }
				})
				check := func(index int, want error) {
					t.Helper()
					token := l.token(status(index).with(object{"exp": time.Now().Add(time.Hour).Unix()}))
					if _, err := v.Verify(t.Context(), token); !errors.Is(err, want) {
						t.Errorf("entry %d: got %v, want %v", index, err, want)
					}
				}
				check(7, verify.ErrRevoked)
				l.respond(listPath, unavailable)
				time.Sleep(outage)
				for range 2 { // The first one waits for a load.
					check(7, verify.ErrRevoked)
					check(6, nil)
					check(1024, nil) // The list has no entry for it.
				}
				if unchecked != 4 {
					t.Errorf("%d tokens without a list, want 4", unchecked)
				}
				l.respond(listPath, working)
				l.revoke(6)
				time.Sleep(10 * time.Second)
				check(7, nil)
				check(6, verify.ErrRevoked)
			})
		})
	}
}

// TestOlderListIsRejected checks that a token server whose list is older, or an attacker who repeats one, can't
// make a revoked token valid.
func TestOlderListIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, nil)
		var reason atomic.Value
		v := l.verifier(func(o *verify.Options) {
			o.Metrics.Loaded = func(url string, _ time.Duration, err error) {
				if url == listURI { // Keys are loaded at the same time.
					reason.Store(verify.Reason(err))
				}
			}
		})
		token := l.token(status(7).with(object{"exp": time.Now().Add(24 * time.Hour).Unix()}))
		old := l.list(l.listClaims(nil))
		time.Sleep(time.Second)
		l.revoke(7)
		for _, pause := range []time.Duration{10 * time.Second, 30 * time.Minute} { // in use, and not in use
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, verify.ErrRevoked) {
				t.Error(err)
			}
			l.publish(old)
			time.Sleep(pause)
			synctest.Wait()
			if got := reason.Load(); got != "list_older" {
				t.Errorf("reason is %q", got)
			}
		}
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, verify.ErrRevoked) {
			t.Error(err)
		}
		// Nothing else is wrong with the old list.
		if _, err := l.verifier(nil).Verify(t.Context(), token); err != nil {
			t.Error(err)
		}
	})
}

// TestListIsShorterThanIndex checks that a new client is accepted at once, and that others can't cause more than
// one request per second.
func TestListIsShorterThanIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, nil)
		v := l.verifier(func(o *verify.Options) { o.Status = verify.StatusBestEffort })
		if _, err := v.Verify(t.Context(), l.token(status(7))); err != nil {
			t.Error(err)
		}
		time.Sleep(1500 * time.Millisecond)
		for range 50 {
			if _, err := v.Verify(t.Context(), l.token(status(1024))); !errors.Is(err, verify.ErrListTooShort) {
				t.Error(err)
			}
		}
		if got := l.requestsOf(listPath); got != 2 {
			t.Errorf("%d requests, want 2", got)
		}
		time.Sleep(time.Second)
		l.publish(l.list(l.listClaims(object{"status_list": object{"bits": 1, "lst": deflate(make([]byte, 256))}})))
		if _, err := v.Verify(t.Context(), l.token(status(1024))); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		l.respond(listPath, unavailable) // Then nothing is known about the token.
		if _, err := v.Verify(t.Context(), l.token(status(2048))); err != nil {
			t.Error(err)
		}
		if _, err := l.verifier(nil).Verify(t.Context(), l.token(status(2048))); !errors.Is(err, verify.ErrStatusUnavailable) {
			t.Error(err)
		}
	})
}

// TestUnusedListIsNotTrusted checks that after a long time without tokens, every token waits until the list is
// loaded again. A token that expires first is rejected.
func TestUnusedListIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, nil)
		v := l.verifier(nil)
		day := object{"exp": time.Now().Add(24 * time.Hour).Unix()}
		if _, err := v.Verify(t.Context(), l.token(status(7))); err != nil {
			t.Error(err)
		}
		time.Sleep(30 * time.Minute)
		l.revoke(7)
		current := l.responses[listPath]
		l.respond(listPath, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(3 * time.Second)
			current(w, r)
		})
		for token, want := range map[string]error{
			l.token(status(7).with(day)): verify.ErrRevoked, l.token(status(7)): verify.ErrRevoked, l.token(status(6)): nil,
			l.token(status(6).with(object{"exp": time.Now().Add(2 * time.Second).Unix()})): verify.ErrExpired,
		} {
			go func() {
				if _, err := v.Verify(t.Context(), token); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
	})
}

// TestListExpiresEarly checks that a list is loaded again when it expires before its TTL is over, and when the clock
// was set.
func TestListExpiresEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, nil)
		var ahead atomic.Int64 // nanoseconds
		v := l.verifier(func(o *verify.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		token := l.token(status(7).with(object{"exp": time.Now().Add(24 * time.Hour).Unix()}))
		soon := func(from time.Time) object { return object{"ttl": 600, "exp": from.Add(2 * time.Minute).Unix()} }
		for range 60 { // from a token server that is cut off
			l.publish(l.list(l.listClaims(soon(time.Now()))))
			if _, err := v.Verify(t.Context(), token); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Second)
		}
		for i, step := range []time.Duration{3 * time.Minute, 0} {
			time.Sleep(time.Second)
			ahead.Store(int64(step))
			l.publish(l.list(l.listClaims(soon(time.Now().Add(step)), 7*i)))
			if _, err := v.Verify(t.Context(), token); (i == 1) != errors.Is(err, verify.ErrRevoked) {
				t.Errorf("%s ahead: %v", step, err)
			}
		}
	})
}

// TestOnlySignedTokensLoadLists checks that forged tokens cause no requests, and that only the latest 17 lists are
// kept and loaded.
func TestOnlySignedTokensLoadLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		v := r.verifier(nil)
		at := func(n int) object {
			return object{"status": object{"status_list": object{"uri": fmt.Sprintf("%s/oauth2/status/%d", issuer, n), "idx": 0}}}
		}
		path := func(n int) string { return fmt.Sprintf("/acme/oauth2/status/%d", n) }
		for n := range 10 {
			for _, forged := range []string{
				sign(t, newKey(t).Key, r.header(nil), r.claims(at(n))), r.token(at(n).with(object{"aud": "x"})), r.token(at(n).with(object{"exp": 1})),
			} {
				if _, err := v.Verify(t.Context(), forged); err == nil {
					t.Error("accepted a forged token")
				}
			}
			if got := r.requestsOf(path(n)); got != 0 {
				t.Errorf("%d requests for forged tokens", got)
			}
		}
		for n := range 20 {
			claims := r.listClaims(object{"sub": fmt.Sprintf("%s/oauth2/status/%d", issuer, n)})
			r.publishAt(path(n), r.list(claims))
			if _, err := v.Verify(t.Context(), r.token(at(n))); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
		r.mu.Lock()
		clear(r.requests)
		r.mu.Unlock()
		time.Sleep(time.Minute)
		for n := range 20 {
			if got := r.requestsOf(path(n)); (got > 0) != (n >= 3) {
				t.Errorf("list %d was loaded %d times", n, got)
			}
		}
	})
}

// TestListKeyRotation checks that a list is accepted if a key signed it that the realm published since the keys were
// loaded.
func TestListKeyRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, nil)
		v := l.verifier(nil)
		check := func(want error) {
			t.Helper()
			token := l.token(status(7).with(object{"exp": time.Now().Add(time.Hour).Unix()}))
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		check(nil)
		time.Sleep(time.Minute)
		key := newKey(t)
		l.mu.Lock()
		l.listKeys = append(l.listKeys, key)
		l.mu.Unlock()
		l.revoke(7)
		time.Sleep(20 * time.Second) // two TTLs
		check(verify.ErrRevoked)
	})
}

// TestRealmURL checks that lists are loaded where the API reaches the realm, and that their URIs are those of the
// issuer.
func TestRealmURL(t *testing.T) {
	l := newLive(t, nil)
	l.revoke(7)
	var urls []string
	v := l.verifier(func(o *verify.Options) {
		o.RealmURL = "https://token-server.svc/acme"
		o.Metrics.Loaded = func(url string, _ time.Duration, _ error) { urls = append(urls, url) }
	})
	if _, err := v.Verify(t.Context(), l.token(status(7))); !errors.Is(err, verify.ErrRevoked) {
		t.Error(err)
	}
	const base = "https://token-server.svc/acme/oauth2/"
	if want := []string{base + "jwks", base + "status/jwks", base + "status/1795746250"}; !slices.Equal(urls, want) {
		t.Errorf("loaded %v, want %v", urls, want)
	}
}

// FuzzList checks that no signed list makes a verifier use more memory, or keep the list longer, than allowed.
func FuzzList(f *testing.F) {
	r, now := newFixedRealm(f)
	for _, changes := range []object{nil, {"ttl": 1e300}, {"status_list": object{"bits": 1, "lst": "eNrbuRgAAhcBXQ"}}, {"status_list": object{"bits": 1, "lst": bomb()}}} {
		f.Add(encode(f, r.listClaims(fixedTimes(now).with(changes))))
	}
	f.Add([]byte("{}"))
	key, header := r.key(), r.header(object{"typ": "statuslist+jwt"})
	public := key.Public()
	f.Fuzz(func(t *testing.T, payload []byte) {
		list, err := verify.ParseList(signPayload(t, key.Key, header, payload), issuer, listURI, public)
		if err != nil {
			if reason := verify.Reason(err); !strings.HasPrefix(reason, "list_") {
				t.Fatalf("reason of %v is %q", err, reason)
			}
			return
		}
		if list.Size > 1<<17 || list.TTL < 5*time.Second || list.TTL > time.Hour || list.ExpiresAt.Sub(list.IssuedAt) > 24*time.Hour {
			t.Fatalf("accepted %+v", list)
		}
	})
}

package tokenserver_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const currentList = "/acme/oauth2/status/7"

// confirmed is the time of the state of the records.
var confirmed = now.Add(-3 * time.Second)

// lists are the current list 7 and the ended list 5.
func lists() *record.StatusLists {
	return &record.StatusLists{Number: 7, TTLSeconds: 10, Ended: []record.EndedList{{Number: 5, EndsAt: now.Add(time.Hour)}}}
}

// startWithLists runs a token server with status lists, and clients that hold indexes. The returned function
// moves its clock. A beacon arrives every 10 seconds.
func startWithLists(t *testing.T) (*server, func(time.Duration)) {
	t.Helper()
	at := now
	s := startLoaded(t, func(o *tokenserver.Options) {
		o.Confirmed, o.Now = func() time.Time { return confirmed.Add(at.Sub(now).Truncate(10 * time.Second)) }, func() time.Time { return at }
	})
	s.setListing(t, lists())
	for i, change := range map[int]func(*registry.Client){
		0:    nil,
		1:    func(c *registry.Client) { c.Disabled = true },
		2:    func(c *registry.Client) { c.ExpiresAt = now.Add(5 * time.Second) },
		3:    func(c *registry.Client) { c.ExpiresAt = now },
		4:    func(c *registry.Client) { c.TokensValidAfter = now },
		5:    func(c *registry.Client) { c.TokensValidAfter, c.StatusIndex.ValidAfter = now, now },
		6:    func(c *registry.Client) { c.StatusIndex = nil },
		1500: func(c *registry.Client) { c.Disabled = true },
	} {
		s.registry.SetIndex(registry.Index{RealmUID: "uid-acme", Index: i})
		s.registry.SetClient(indexed(t, i, change))
	}
	s.registry.SetIndex(registry.Index{RealmUID: "uid-other", Index: 9})
	s.registry.SetClient(indexed(t, 3000, func(c *registry.Client) { c.Disabled = true })) // The index arrives later.
	return s, func(d time.Duration) { at = at.Add(d) }
}

func (s *server) setListing(t *testing.T, lists *record.StatusLists, change ...func(*registry.RealmSettings)) {
	t.Helper()
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) {
		r.StatusLists = lists
		for _, more := range change {
			more(r)
		}
	}))
}

func indexed(t *testing.T, index int, change func(*registry.Client)) *registry.Client {
	t.Helper()
	return newClient(t, "acme", "client-"+string(rune('a'+index%26))+string(rune('a'+index/26%26)), func(c *registry.Client) {
		c.StatusIndex = &record.StatusIndex{Index: index}
		if change != nil {
			change(c)
		}
	})
}

// statusList is a verified list.
type statusList struct {
	claims  map[string]any
	entries []byte
	jwt     string
}

// list gets a list and verifies it with the public key for lists.
func (s *server) list(t *testing.T, path string) statusList {
	t.Helper()
	got := s.send(t, s.direct(), request{method: "GET", path: path})
	expectStatus(t, path, http.StatusOK, got)
	return readList(t, got.body)
}

func readList(t *testing.T, jwt string) statusList {
	t.Helper()
	parsed := testkit.Value(jose.ParseSignedCompact(jwt, []jose.SignatureAlgorithm{jose.ES256}))(t)
	active := keyIn(signingkey.Active, signingkey.ES256)
	key, _ := active.ListPublic()
	public := testkit.Value(signingkey.JWKS([]signingkey.PublicKey{key}))(t)
	var keys jose.JSONWebKeySet
	testkit.Do(t, json.Unmarshal(public, &keys))
	header := parsed.Signatures[0].Header
	if header.ExtraHeaders["typ"] != "statuslist+jwt" || header.KeyID != keys.Keys[0].KeyID {
		t.Errorf("header %+v", header)
	}
	l := statusList{jwt: jwt}
	testkit.Do(t, json.Unmarshal(testkit.Value(parsed.Verify(keys.Keys[0]))(t), &l.claims))
	content := l.claims["status_list"].(map[string]any)
	compressed := testkit.Value(base64.RawURLEncoding.DecodeString(content["lst"].(string)))(t)
	l.entries = testkit.Value(io.ReadAll(testkit.Value(zlib.NewReader(bytes.NewReader(compressed)))(t)))(t)
	content["lst"] = ""
	return l
}

// invalid returns the indexes of the INVALID entries, or -1 if all are.
func (l *statusList) invalid() []int {
	var invalid []int
	for i := range len(l.entries) * 8 {
		if l.entries[i/8]>>(i%8)&1 == 1 {
			invalid = append(invalid, i)
		}
	}
	if len(invalid) == len(l.entries)*8 {
		return []int{-1}
	}
	return invalid
}

func TestStatusListClaims(t *testing.T) {
	s, _ := startWithLists(t)
	for path, want := range map[string]struct{ invalid []int }{
		currentList:             {[]int{1, 3, 4, 6, 1500, 3000}},
		"/acme/oauth2/status/5": {[]int{-1}},
	} {
		list := s.list(t, path)
		testkit.Diff(t, "claims of "+path, map[string]any{
			"iss": acme, "sub": "https://" + host + path, "iat": float64(confirmed.Unix()), "exp": float64(confirmed.Unix() + 3600), "ttl": 10.0,
			"status_list": map[string]any{"bits": 1.0, "lst": ""},
		}, list.claims)
		testkit.Diff(t, "INVALID entries of "+path, want.invalid, list.invalid())
		if want := map[string]int{currentList: 4096 / 8}[path]; want != 0 && len(list.entries) != want {
			t.Errorf("%s has %d bytes, want %d", path, len(list.entries), want)
		}
	}
}

// Each change of what decides about a token changes its entry, also if no record changes.
func TestStatusListFollowsState(t *testing.T) {
	reject := func(r *registry.RealmSettings) { r.TokensValidAfter = now }
	for name, tc := range map[string]struct {
		change func(t *testing.T, s *server, sleep func(time.Duration))
		want   []int
	}{
		"nothing": {func(*testing.T, *server, func(time.Duration)) {}, []int{1, 3, 4, 6, 1500, 3000}},
		"suspended": {func(t *testing.T, s *server, _ func(time.Duration)) {
			s.registry.SetClient(indexed(t, 0, func(c *registry.Client) { c.Disabled = true }))
		}, []int{0, 1, 3, 4, 6, 1500, 3000}},
		"resumed": {func(t *testing.T, s *server, _ func(time.Duration)) { s.registry.SetClient(indexed(t, 1, nil)) }, []int{3, 4, 6, 1500, 3000}},
		"deleted": {func(t *testing.T, s *server, _ func(time.Duration)) { s.registry.Remove(indexed(t, 0, nil).Record) }, []int{0, 1, 3, 4, 6, 1500, 3000}},
		"deleted and released": {func(t *testing.T, s *server, _ func(time.Duration)) {
			s.registry.Remove(indexed(t, 1500, nil).Record)
			s.registry.RemoveIndex(registry.Index{RealmUID: "uid-acme", Index: 1500})
		}, []int{1, 3, 4, 6, 3000}},
		"expired": {func(_ *testing.T, _ *server, sleep func(time.Duration)) { sleep(4 * time.Second) }, []int{1, 2, 3, 4, 6, 1500, 3000}},
		"other realm": {func(_ *testing.T, s *server, _ func(time.Duration)) {
			s.registry.SetIndex(registry.Index{RealmUID: "uid-other", Index: 0})
		}, []int{1, 3, 4, 6, 1500, 3000}},
		"suspended realm": {func(t *testing.T, s *server, _ func(time.Duration)) {
			s.setListing(t, lists(), func(r *registry.RealmSettings) { r.Disabled = true })
		}, []int{-1}},
		"revoked realm": {func(t *testing.T, s *server, _ func(time.Duration)) { s.setListing(t, lists(), reject) }, []int{-1}},
		"revoked in the future": {func(t *testing.T, s *server, _ func(time.Duration)) {
			s.registry.SetClient(indexed(t, 0, func(c *registry.Client) {
				c.TokensValidAfter, c.StatusIndex.ValidAfter = now.Add(2*time.Second), now.Add(2*time.Second)
			}))
		}, []int{0, 1, 3, 4, 6, 1500, 3000}},
		"revoked until now": {func(t *testing.T, s *server, sleep func(time.Duration)) {
			s.registry.SetClient(indexed(t, 0, func(c *registry.Client) {
				c.TokensValidAfter, c.StatusIndex.ValidAfter = now.Add(2*time.Second), now.Add(2*time.Second)
			}))
			sleep(time.Second)
			s.list(t, currentList)
		}, []int{1, 3, 4, 6, 1500, 3000}},
		"realm revoked in the future": {func(t *testing.T, s *server, _ func(time.Duration)) {
			at := now.Add(2 * time.Second)
			s.setListing(t, &record.StatusLists{Number: 7, TTLSeconds: 10, ValidAfter: at}, func(r *registry.RealmSettings) { r.TokensValidAfter = at })
		}, []int{-1}},
		"realm revoked until now": {func(t *testing.T, s *server, sleep func(time.Duration)) {
			at := now.Add(2 * time.Second)
			s.setListing(t, &record.StatusLists{Number: 7, TTLSeconds: 10, ValidAfter: at}, func(r *registry.RealmSettings) { r.TokensValidAfter = at })
			sleep(time.Second)
			s.list(t, currentList)
		}, []int{1, 3, 4, 6, 1500, 3000}},
		"unreadable realm and its last client deleted": {func(t *testing.T, s *server, _ func(time.Duration)) {
			s.registry.Replace(nil, []*registry.Client{indexed(t, 1, nil)}, nil, []registry.Index{{RealmUID: "uid-acme", Index: 1}}, func(string) bool { return false })
			s.registry.Remove(indexed(t, 1, nil).Record)
			s.setListing(t, lists())
		}, []int{1}},
		"new list of a realm": {func(t *testing.T, s *server, _ func(time.Duration)) {
			s.setListing(t, &record.StatusLists{Number: 7, TTLSeconds: 10, ValidAfter: now}, reject)
		}, []int{1, 3, 4, 6, 1500, 3000}},
		"listed again": {func(t *testing.T, s *server, _ func(time.Duration)) {
			s.registry.Replace([]*registry.Realm{s.registry.Realm("acme")}, []*registry.Client{indexed(t, 0, nil)}, nil,
				[]registry.Index{{RealmUID: "uid-acme", Index: 0}, {RealmUID: "uid-acme", Index: 3}}, func(string) bool { return false })
		}, []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			s, sleep := startWithLists(t)
			s.list(t, currentList)
			tc.change(t, s, sleep)
			sleep(time.Second)
			list := s.list(t, currentList)
			testkit.Diff(t, "INVALID entries", tc.want, list.invalid())
		})
	}
}

// A list is signed only when it has changed, and at most four times a second.
func TestStatusListIsSignedOnce(t *testing.T) {
	s, sleep := startWithLists(t)
	first := s.list(t, currentList).jwt // Signatures with ES256 differ, even of the same content.
	ended := s.list(t, "/acme/oauth2/status/5").jwt
	suspend := func() { s.registry.SetClient(indexed(t, 0, func(c *registry.Client) { c.Disabled = true })) }
	sleep(time.Millisecond)
	suspend()
	if s.list(t, currentList).jwt != first {
		t.Error("the list is signed again after a millisecond")
	}
	sleep(250 * time.Millisecond)
	second := s.list(t, currentList)
	testkit.Diff(t, "INVALID entries", []int{0, 1, 3, 4, 6, 1500, 3000}, second.invalid())
	sleep(100 * time.Millisecond)
	s.registry.SetRealm(newRealm(t, "another", nil))
	if s.list(t, currentList).jwt != second.jwt {
		t.Error("the list is signed again although nothing has changed")
	}
	if s.list(t, "/acme/oauth2/status/5").jwt != ended {
		t.Error("an ended list is signed again for the change of a client")
	}
	sleep(10 * time.Second)
	if list := s.list(t, currentList); list.claims["iat"] != float64(confirmed.Unix()+10) {
		t.Errorf("iat %v after the next beacon", list.claims["iat"])
	}
}

func TestStatusListHTTP(t *testing.T) {
	s, _ := startWithLists(t)
	client := s.direct()
	plain := s.send(t, client, request{method: "GET", path: currentList, query: "x=" + canary})
	want := map[string]string{
		"Content-Type": "application/statuslist+jwt", "Cache-Control": "public, no-cache", "Vary": "Accept-Encoding", "Access-Control-Allow-Origin": "*", "Content-Encoding": "",
	}
	testkit.Diff(t, "headers", want, only(plain.header, want))
	tag := plain.header.Get("ETag")
	for name, tc := range map[string]struct {
		header     http.Header
		want       int
		compressed bool
	}{
		"same tag":         {http.Header{"If-None-Match": {tag}}, http.StatusNotModified, false},
		"one of many tags": {http.Header{"If-None-Match": {`"x", ` + tag}}, http.StatusNotModified, false},
		"other tag":        {http.Header{"If-None-Match": {`W/"other"`}}, http.StatusOK, false},
		"gzip":             {http.Header{"Accept-Encoding": {"br, gzip"}}, http.StatusOK, true},
		"no gzip":          {http.Header{"Accept-Encoding": {"gzip;q=0, identity"}}, http.StatusOK, false},
	} {
		got := s.send(t, client, request{method: "GET", path: currentList, header: tc.header})
		body := got.body
		if tc.compressed {
			body = string(testkit.Value(io.ReadAll(testkit.Value(gzip.NewReader(strings.NewReader(body)))(t)))(t))
		}
		if got.status != tc.want || got.header.Get("ETag") != tag || (got.header.Get("Content-Encoding") == "gzip") != tc.compressed || tc.want == http.StatusOK && body != plain.body {
			t.Errorf("%s: got %d %v %s", name, got.status, got.header, got.body)
		}
	}
	earlier := s.send(t, client, request{method: "GET", path: currentList, query: "time=1"})
	checkRejection(t, earlier, 501, "invalid_request", "")
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"/acme/oauth2/status/6": {404, "invalid_request"}, "/acme/oauth2/status/07": {404, "invalid_request"}, "/acme/oauth2/status/": {404, "invalid_request"},
		"/frozen/oauth2/status/7": {404, "invalid_request"}, "/unknown/oauth2/status/7": {404, "invalid_request"},
	} {
		checkRejection(t, s.send(t, client, request{method: "GET", path: path}), want.status, want.code, "")
	}
	s.setListing(t, lists(), func(r *registry.RealmSettings) {
		r.Keys = []signingkey.Key{keyIn(signingkey.Pending, signingkey.ES256)}
	})
	for name, got := range map[string]response{
		"no signing key": s.send(t, client, request{method: "GET", path: "/acme/oauth2/status/5"}),
		"not loaded":     s.send(t, start(t).direct(), request{method: "GET", path: currentList}),
	} {
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d %v %s", name, got.status, got.header, got.body)
		}
	}
}

func only(header http.Header, names map[string]string) map[string]string {
	some := map[string]string{}
	for name := range maps.Keys(names) {
		some[name] = header.Get(name)
	}
	return some
}

// Tokens refer to the current list if the realm has one that is not about to end, and the client an index.
func TestStatusClaim(t *testing.T) {
	ending := lists()
	ending.Ending = true
	for name, tc := range map[string]struct {
		lists *record.StatusLists
		index *record.StatusIndex
		want  any
	}{
		"index":       {lists(), &record.StatusIndex{Index: 1048575}, map[string]any{"status_list": map[string]any{"uri": "https://" + host + currentList, "idx": 1048575.0}}},
		"first index": {lists(), &record.StatusIndex{}, map[string]any{"status_list": map[string]any{"uri": "https://" + host + currentList, "idx": 0.0}}},
		"no index":    {lists(), nil, nil},
		"ending":      {ending, &record.StatusIndex{Index: 1}, nil},
		"ended":       {&record.StatusLists{TTLSeconds: 10, Ended: []record.EndedList{{Number: 5, EndsAt: now}}}, &record.StatusIndex{Index: 1}, nil},
		"no list":     {nil, &record.StatusIndex{Index: 1}, nil},
	} {
		s, _ := startWithLists(t)
		s.setListing(t, tc.lists)
		s.registry.SetClient(newClient(t, "acme", "billing", func(c *registry.Client) { c.StatusIndex = tc.index }))
		testkit.Diff(t, name, tc.want, payload(t, issued(t, s, "billing", ""))["status"])
	}
}

// A client with an index gets no token that is older than its tokensValidAfterTime, because its entry is VALID
// from then on.
func TestNoRevokedTokenRefersToAList(t *testing.T) {
	later := now.Truncate(time.Second).Add(time.Second)
	for name, tc := range map[string]struct {
		client func(*registry.Client)
		realm  func(*registry.RealmSettings)
		sleep  time.Duration
		want   int
	}{
		"client":               {client: func(c *registry.Client) { c.TokensValidAfter = later }, want: http.StatusServiceUnavailable},
		"client without index": {client: func(c *registry.Client) { c.TokensValidAfter, c.StatusIndex = later, nil }, want: http.StatusOK},
		"client, later":        {client: func(c *registry.Client) { c.TokensValidAfter = later }, sleep: time.Second / 2, want: http.StatusOK},
		"realm":                {realm: func(r *registry.RealmSettings) { r.TokensValidAfter = later }, want: http.StatusServiceUnavailable},
		"realm without list":   {realm: func(r *registry.RealmSettings) { r.TokensValidAfter, r.StatusLists = later, nil }, want: http.StatusOK},
		"realm, later":         {realm: func(r *registry.RealmSettings) { r.TokensValidAfter = later }, sleep: time.Second / 2, want: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			s, sleep := startWithLists(t)
			if tc.realm != nil {
				s.setListing(t, lists(), tc.realm)
			}
			s.registry.SetClient(indexed(t, 0, tc.client))
			sleep(tc.sleep)
			got := s.send(t, s.direct(), request{query: grant, authorization: basic(indexed(t, 0, nil).ID, secret)})
			if got.status != tc.want || tc.want != http.StatusOK && got.header.Get("Retry-After") != "1" {
				t.Errorf("got %d %v %s, want %d", got.status, got.header, got.body, tc.want)
			}
		})
	}
}

// A token that acts for a subject has the index of the actor.
func TestStatusClaimOfExchangedToken(t *testing.T) {
	s := startDelegating(t)
	s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.StatusLists = lists() })
	for i, id := range []string{"service", "agent"} {
		c := *s.registry.Realm("acme").Client(id)
		c.StatusIndex = &record.StatusIndex{Index: i + 1}
		s.registry.SetClient(newClient(t, "acme", id, func(n *registry.Client) {
			n.StatusIndex, n.Namespace, n.Audiences, n.Scopes, n.DelegatedScopes = c.StatusIndex, c.Namespace, c.Audiences, c.Scopes, c.DelegatedScopes
		}))
	}
	subject := issued(t, s, "service", "")
	got := []any{}
	for _, token := range []string{subject, s.exchanged(t, "agent", subject)} {
		status, _ := payload(t, token)["status"].(map[string]any)
		got = append(got, status["status_list"].(map[string]any)["idx"])
	}
	if !slices.Equal(got, []any{1.0, 2.0}) {
		t.Errorf("indexes %v, want those of the subject and of the actor", got)
	}
}

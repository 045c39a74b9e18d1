package portal_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
)

const day = 24 * time.Hour

// serveClients makes the API server return the clients of the requested realm, in their order, in
// chunks of the requested size.
func (s *apiServer) serveClients(all []v1beta1.ApiClient) {
	s.handle(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/apiclients") {
			return false
		}
		clients := all
		if realm, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "spec.realmRef.name="); ok {
			clients = slices.DeleteFunc(slices.Clone(all), func(c v1beta1.ApiClient) bool { return c.Spec.RealmRef.Name != realm })
		}
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		start, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		end := min(start+limit, len(clients))
		list := v1beta1.ApiClientList{Items: clients[start:end]}
		if end < len(clients) {
			list.Continue = strconv.Itoa(end)
		}
		_ = json.NewEncoder(w).Encode(list)
		return true
	})
}

// handle sets respond.
func (s *apiServer) handle(respond func(http.ResponseWriter, *http.Request) bool) {
	s.respond.Store(&respond)
}

// listed is a client in a list.
type listed struct {
	namespace, name, realm      string
	age, used, expires, rotates time.Duration // 0 for never
	status                      metav1.ConditionStatus
	reason                      v1beta1.ConditionReason
}

// fleet returns clients in the order of the API server. Times are relative to now.
func fleet(now time.Time, all ...listed) []v1beta1.ApiClient {
	at := func(d time.Duration) *metav1.Time {
		if d == 0 {
			return nil
		}
		return &metav1.Time{Time: now.Add(d).Truncate(time.Second)}
	}
	var clients []v1beta1.ApiClient
	for _, l := range all {
		c := v1beta1.ApiClient{}
		c.Namespace, c.Name, c.Spec.RealmRef.Name, c.CreationTimestamp = l.namespace, l.name, l.realm, *at(-l.age)
		c.Spec.ExpirationTime, c.Status.NextRotationTime, c.Status.LastUsedTime = at(l.expires), at(l.rotates), at(-l.used)
		c.Status.Credentials = []v1beta1.CredentialStatus{{Type: v1beta1.CredentialTypeSecret, Name: "a", CreationTime: at(-l.age), LastUsedTime: at(-l.used)}}
		c.Status.Conditions = []metav1.Condition{{Type: string(v1beta1.ConditionReady), Status: l.status, Reason: string(l.reason)}}
		clients = append(clients, c)
	}
	return clients
}

func sampleFleet(now time.Time) []v1beta1.ApiClient {
	return fleet(now,
		listed{"a", "late", "y", 400 * day, 2 * time.Hour, 40 * day, 12 * day, metav1.ConditionTrue, v1beta1.ReasonReady},
		listed{"a", "old", "x", 400 * day, 91 * day, 0, 0, metav1.ConditionTrue, v1beta1.ReasonReady},
		listed{"b", "bad", "z", 89 * day, 0, 29 * day, 0, metav1.ConditionFalse, v1beta1.ReasonRealmNotFound},
		listed{"b", "gone", "x", 91 * day, 0, -day, 0, metav1.ConditionFalse, v1beta1.ReasonExpired},
		listed{"c", "a", "x", day, time.Hour, 0, day, metav1.ConditionFalse, v1beta1.ReasonSuspended},
	)
}

var rowName = regexp.MustCompile(`<th scope="row"><a href="/clients/([^"]*)"`)

// rows returns the clients on a page as namespace/name.
func rows(body string) (names []string) {
	for _, found := range rowName.FindAllStringSubmatch(body, -1) {
		names = append(names, found[1])
	}
	return names
}

func TestListOrderAndFilters(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	f.api.serveClients(sampleFleet(f.now()))
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	for query, want := range map[string]string{
		"":                              "a/late a/old b/bad b/gone c/a",
		"sort=nonsense":                 "a/late a/old b/bad b/gone c/a",
		"sort=-namespace":               "c/a b/bad b/gone a/late a/old",
		"sort=-name":                    "a/old a/late b/gone b/bad c/a",
		"sort=realm":                    "a/old b/gone c/a a/late b/bad",
		"attention=expiring":            "b/bad",
		"attention=unused&sort=-name":   "a/old b/gone",
		"attention=old-secret":          "",
		"attention=unused&state=Ready":  "a/old",
		"realm=x&sort=-used":            "c/a a/old b/gone",
		"search=GO&sort=used":           "b/gone",
		"state=Not+ready&sort=-expires": "b/bad",
	} {
		got := user.get("/clients?" + query)
		if diff := cmp.Diff(want, strings.Join(rows(got.body), " ")); diff != "" || got.StatusCode != http.StatusOK {
			t.Errorf("Query %q: status %d, (-want +got):\n%s", query, got.StatusCode, diff)
		}
	}
	page := user.get("/clients?attention=unused&sort=-used").body
	for _, want := range []string{
		"weren&#39;t used for 90 days", "1 unused credential", `aria-sort="descending"><a href="/clients?attention=unused&amp;sort=used">Last used</a>`,
		`<th scope="col"><a href="/clients?attention=unused&amp;sort=expires">Expires</a>`, "1 to 2 of 2",
	} {
		if !strings.Contains(page, want) && !strings.Contains(html.UnescapeString(page), html.UnescapeString(want)) {
			t.Errorf("Page doesn't contain %q:\n%s", want, page)
		}
	}
}

// The pages of a list show each client exactly once, in order.
func TestSortedListIsPaged(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	var all []listed
	for k := range 620 {
		all = append(all, listed{"team", fmt.Sprintf("client-%04d", k), "acme", day, time.Duration(k*7919%620+1) * time.Hour, 0, 0, metav1.ConditionTrue, v1beta1.ReasonReady})
	}
	f.api.serveClients(fleet(f.now(), all...))
	slices.SortFunc(all, func(a, b listed) int { return int(b.used - a.used) })
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`)
	var got []string
	for path := "/clients?sort=used"; path != ""; {
		page := user.get(path).body
		if want := fmt.Sprintf("%d to %d of 620", len(got)+1, min(len(got)+50, 620)); !strings.Contains(strings.ReplaceAll(page, ",", ""), want) {
			t.Errorf("Page %s doesn't contain %q", path, want)
		}
		got = append(got, rows(page)...)
		path = ""
		if found := next.FindStringSubmatch(page); found != nil {
			path = html.UnescapeString(found[1])
		}
	}
	var want []string
	for _, l := range all {
		want = append(want, "team/"+l.name)
	}
	testkit.Diff(t, "result", want, got)
}

// If there are too many clients, the portal sorts and counts only the first ones, and the pages say
// so.
func TestListOfTooManyClients(t *testing.T) {
	t.Parallel()
	f := startPortal(t, func(o *portal.Options, _ *access.Sessions) { o.Timeout = time.Hour }) // A busy machine takes long.
	clients := make([]v1beta1.ApiClient, portal.MaxScanned+1)
	for k := range clients {
		clients[k].Namespace, clients[k].Name, clients[k].Spec.RealmRef.Name = "team", fmt.Sprintf("client-%05d", k), "acme"
	}
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	for count, want := range map[int]bool{portal.MaxScanned: false, portal.MaxScanned + 1: true} {
		f.api.serveClients(clients[:count])
		for path, warning := range map[string]string{"/clients?sort=-name": "Only the first 20,000 clients are sorted", "/": "Only the first 20,000 clients are counted"} {
			page := user.get(path).body
			if strings.Contains(page, warning) != want {
				t.Errorf("Page %s of %d clients has the warning: %t, want %t", path, count, !want, want)
			}
			if !strings.Contains(page, "20,000") {
				t.Errorf("Page %s of %d clients doesn't have the count", path, count)
			}
		}
	}
}

// A response that ends early isn't mistaken for a short list.
func TestTruncatedListIsAnError(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	body := testkit.Value(json.Marshal(v1beta1.ApiClientList{Items: sampleFleet(f.now())}))(t)
	for range 20 {
		end := rand.IntN(len(body) - 1)
		f.api.handle(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/apiclients") {
				return false
			}
			_, _ = w.Write(body[:end])
			return true
		})
		for _, path := range []string{"/", "/clients", "/clients?sort=used"} {
			if got := user.get(path); got.StatusCode != http.StatusBadGateway {
				t.Errorf("Page %s after %d of %d bytes: status %d, want 502", path, end, len(body), got.StatusCode)
			}
		}
	}
}

func TestExpiryOf(t *testing.T) {
	at := func(hours int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 1, 1, hours, 0, 0, 0, time.UTC)}
	}
	secret := func(expires *metav1.Time) v1beta1.CredentialStatus {
		return v1beta1.CredentialStatus{ExpirationTime: expires}
	}
	for name, tc := range map[string]struct {
		client      *metav1.Time
		credentials []v1beta1.CredentialStatus
		want        *metav1.Time
	}{
		"no credentials":            {nil, nil, nil},
		"client before last secret": {at(1), []v1beta1.CredentialStatus{secret(at(3)), secret(at(2))}, at(1)},
		"last secret before client": {at(4), []v1beta1.CredentialStatus{secret(at(3)), secret(at(2))}, at(3)},
		"another secret remains":    {nil, []v1beta1.CredentialStatus{secret(at(3)), secret(nil)}, nil},
		"a public key remains":      {nil, []v1beta1.CredentialStatus{secret(at(3)), {Type: v1beta1.CredentialTypePublicKey}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1beta1.ApiClient{}
			c.Spec.ExpirationTime, c.Status.Credentials = tc.client, tc.credentials
			testkit.Diff(t, "result", tc.want, portal.ExpiryOf(c))
		})
	}
}

// The overview counts all clients, and each count links to the list of the counted clients.
func TestOverview(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	f.api.serveClients(sampleFleet(f.now()))
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	page := user.get("/")
	got := map[string]int{}
	for _, found := range regexp.MustCompile(`href="(/clients\?[^"]*)"[^>]*>(?:<span class="badge[^>]*>[^<]*</span> <strong>)?([0-9,]+)`).FindAllStringSubmatch(page.body, -1) {
		got[html.UnescapeString(found[1])], _ = strconv.Atoi(found[2])
	}
	want := map[string]int{
		"/clients?state=Ready":                             2,
		"/clients?state=Progressing":                       0,
		"/clients?state=Suspended":                         1,
		"/clients?state=Expired":                           1,
		"/clients?state=Not+ready":                         1,
		"/clients?attention=expiring&sort=expires":         1,
		"/clients?attention=unused&sort=used":              2,
		"/clients?realm=x":                                 3,
		"/clients?realm=x&state=Ready":                     1,
		"/clients?realm=x&state=Suspended":                 1,
		"/clients?realm=x&state=Expired":                   1,
		"/clients?attention=unused&realm=x&sort=used":      2,
		"/clients?realm=y":                                 1,
		"/clients?realm=y&state=Ready":                     1,
		"/clients?realm=z":                                 1,
		"/clients?realm=z&state=Not+ready":                 1,
		"/clients?attention=expiring&realm=z&sort=expires": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Counts (-want +got):\n%s\n%s", diff, page.body)
	}
	for path, count := range got {
		if listed := len(rows(user.get(path).body)); listed != count {
			t.Errorf("List %s has %d clients, want %d as counted", path, listed, count)
		}
	}
	f.api.serveClients(nil)
	if page := user.get("/"); !strings.Contains(page.body, "Nothing needs attention.") {
		t.Errorf("Overview without clients:\n%s", page.body)
	}
}

// Users who may get the Instance see what is wrong with it and what to do. Others see nothing of it.
func TestOverviewShowsInstance(t *testing.T) {
	t.Parallel()
	ready := func(status metav1.ConditionStatus, reason v1beta1.ConditionReason) metav1.Condition {
		return metav1.Condition{Type: string(v1beta1.ConditionReady), Status: status, Reason: string(reason), Message: "The message.", ObservedGeneration: 1}
	}
	current := v1beta1.TokenServerStatus{Name: "server-0", Version: "v1.2.3", State: v1beta1.TokenServerCurrent}
	stale := v1beta1.TokenServerStatus{Name: "server-1", State: v1beta1.TokenServerStale, Message: "It is silent.", HeartbeatTime: &metav1.Time{Time: time.Now()}}
	nothing := []string{"Nothing needs attention."}
	for name, test := range map[string]struct {
		status   *v1beta1.InstanceStatus // nil if the user may not get it
		want     []string
		wantNone []string
	}{
		"no permission": {nil, nothing, []string{"Instance", "Token server"}},
		"healthy": {
			&v1beta1.InstanceStatus{Version: "v1.2.4", Conditions: []metav1.Condition{ready("True", v1beta1.ReasonReady)}, TokenServers: []v1beta1.TokenServerStatus{current}},
			append(nothing, "Version <bdi>v1.2.4</bdi>", "<bdi>server-0</bdi>", `badge good">Current`, "<bdi>v1.2.3</bdi>"),
			[]string{`href="#instance"`, "The message."},
		},
		"one stopped": {
			&v1beta1.InstanceStatus{Conditions: []metav1.Condition{ready("True", v1beta1.ReasonReady)}, TokenServers: []v1beta1.TokenServerStatus{current, stale}},
			[]string{`href="#instance"`, "A token server is stale", `badge bad">Stale`, "It is silent.", "Last heartbeat"},
			nothing,
		},
		"no token server": {
			&v1beta1.InstanceStatus{Conditions: []metav1.Condition{ready("False", v1beta1.ReasonNoTokenServer)}},
			[]string{`href="#instance"`, "The message.", "Check the token server Deployment and its Pods.", "kubectl describe replicasets,pods", "No token servers."},
			nothing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startPortal(t)
			f.api.handle(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/instances/realmkeeper") {
					return false
				}
				if test.status == nil {
					w.WriteHeader(http.StatusForbidden)
					_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
					return true
				}
				i := v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.InstanceName, Generation: 1}, Status: *test.status}
				i.APIVersion, i.Kind = v1beta1.GroupVersion.String(), "Instance"
				_ = json.NewEncoder(w).Encode(i)
				return true
			})
			user := f.browser(elsewhere)
			user.signIn(goodToken)
			page := user.get("/")
			for _, want := range test.want {
				if !strings.Contains(page.body, want) {
					t.Errorf("Overview lacks %q:\n%s", want, page.body)
				}
			}
			for _, unwanted := range test.wantNone {
				if strings.Contains(page.body, unwanted) {
					t.Errorf("Overview contains %q:\n%s", unwanted, page.body)
				}
			}
		})
	}
}

// Clients can name any number of realms that don't exist. The size of the page must not depend on
// their number.
func TestOverviewListsFewRealms(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	var all []listed
	for k := range 2000 {
		all = append(all, listed{"a", "c" + strconv.Itoa(k), "r" + strconv.Itoa(k), day, 0, 0, 0, metav1.ConditionFalse, v1beta1.ReasonRealmNotFound})
	}
	f.api.serveClients(fleet(f.now(), all...))
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	page := user.get("/")
	if !strings.Contains(page.body, "2,000 clients") || !strings.Contains(page.body, "Only 200 realms are listed.") {
		t.Errorf("Overview lacks the number of clients, or says nothing about omitted realms:\n%.2000s", page.body)
	}
	if got := strings.Count(page.body, `href="/realms/`); got != 200 {
		t.Errorf("Overview lists %d realms, want 200", got)
	}
}

// A late page of a sorted list needs memory for all clients before it, so only one is read at a time.
func TestLatePagesAreReadOneAtATime(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	var reading, together atomic.Int64
	second := make(chan struct{}, 10)
	f.api.handle(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/apiclients") {
			return false
		}
		if reading.Add(1) > 1 {
			together.Add(1)
			second <- struct{}{}
		}
		defer reading.Add(-1)
		select {
		case <-second:
		case <-time.After(100 * time.Millisecond): // no other request came
		}
		_ = json.NewEncoder(w).Encode(v1beta1.ApiClientList{})
		return true
	})
	var pages sync.WaitGroup
	for range 3 {
		pages.Go(func() {
			if page := user.get("/clients?sort=name&from=5000."); page.StatusCode != http.StatusOK {
				t.Errorf("Status is %d, want 200", page.StatusCode)
			}
		})
	}
	pages.Wait()
	if n := together.Load(); n > 0 {
		t.Errorf("%d requests read clients together with others, want none", n)
	}
}

// Users can select from the names of all objects, unless there are too many.
func TestChoices(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	respond := func(status int, body string) {
		f.api.handle(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/namespaces") && !strings.HasSuffix(r.URL.Path, "/realms") {
				return false
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		})
	}
	const list = `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{%s},"items":[{"metadata":{"name":"b"}},{"metadata":{"name":"a"}}]}`
	for name, tc := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"too many":    {http.StatusOK, fmt.Sprintf(list, `"continue":"more"`), ""},
		"not allowed": {http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, ""},
	} {
		respond(tc.status, tc.body)
		for _, kind := range []string{"namespace", "realm"} {
			if got := user.poll("/choices/" + kind); got.StatusCode != http.StatusOK || got.body != tc.want {
				t.Errorf("%s: status %d, %q, want %q", name, got.StatusCode, got.body, tc.want)
			}
		}
	}
	if got := user.poll("/choices/secret"); got.StatusCode != http.StatusNotFound {
		t.Errorf("Status of an unknown kind is %d, want 404", got.StatusCode)
	}
}

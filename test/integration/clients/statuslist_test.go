package clients_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
	"github.com/realmkeeper/realmkeeper/test/framework/statuslist"
)

// listed is a client of a realm with status lists.
type listed struct {
	inst        *install.Installation
	realm       *v1beta1.Realm
	client      *v1beta1.ApiClient
	credentials *corev1.Secret
}

func newListed(t *testing.T, inst *install.Installation, realm string) *listed {
	t.Helper()
	l := &listed{inst: inst, realm: install.Realm(realm, func(r *v1beta1.Realm) {
		r.Spec.StatusList.Enabled = true
		r.Spec.Scopes = v1beta1.Scopes{"read", "write"}
	})}
	l.client = install.ApiClient(inst.Env.Namespace(t), "billing", realm, func(c *v1beta1.ApiClient) { c.Spec.Scopes = v1beta1.Scopes{"write"} })
	inst.Create(t, l.realm, l.client)
	scenario.AwaitUsable(t, inst, l.client)
	l.credentials = inst.CredentialsSecret(t, l.client)
	inst.AwaitReady(t, l.realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	return l
}

// reference returns the status reference of a new token.
func (l *listed) reference(t *testing.T) statuslist.Reference {
	t.Helper()
	return statuslist.Of(t, l.inst.AccessToken(t, l.credentials))
}

// awaitReference waits until every token server issues tokens with a reference that is wanted, and returns it.
func (l *listed) awaitReference(t *testing.T, what string, wanted func(statuslist.Reference) bool) (reference statuslist.Reference) {
	t.Helper()
	for _, s := range l.inst.Servers() {
		httpClient := s.Client(t)
		install.Eventually(t, "tokens of "+s.Name+" "+what, func() error {
			a, err := install.RequestToken(t, s, httpClient, l.credentials)
			if err != nil || a.Status != http.StatusOK {
				return fmt.Errorf("the response is %d %s: %w", a.Status, a.Error, err)
			}
			if reference = statuslist.Of(t, a.AccessToken); !wanted(reference) {
				return fmt.Errorf("the reference is %+v", reference)
			}
			return nil
		})
	}
	return reference
}

func (l *listed) await(t *testing.T, reference statuslist.Reference, want statuslist.Status) {
	t.Helper()
	statuslist.Await(t, l.inst, l.credentials, reference, want)
}

// A token is INVALID in the list of its realm while its client can't be used. It has the same index before and
// after.
func testStatusOfToken(t *testing.T, inst *install.Installation) {
	l := newListed(t, inst, "status-of-token")
	reference := l.reference(t)
	if reference.URI != l.realm.Status.StatusListURI || !strings.HasPrefix(reference.URI, l.realm.Status.Issuer+oauth.StatusListPath) {
		t.Errorf("the token refers to %q, and the list of the realm is %q", reference.URI, l.realm.Status.StatusListURI)
	}
	statuslist.AwaitList(t, inst, l.credentials, reference.URI, func(list *statuslist.List) error {
		if list.Len() != 1024 || list.TTL != 10 || list.Expires-list.IssuedAt != 3600 || list.Status(reference.Index) != statuslist.Valid {
			return fmt.Errorf("%d entries, claims %+v", list.Len(), list)
		}
		return nil
	})

	onClient := func(change func(*v1beta1.ApiClient)) func() {
		return func() { install.Change(t, inst, l.client, change) }
	}
	onRealm := func(change func(*v1beta1.Realm)) func() { return func() { install.Change(t, inst, l.realm, change) } }
	for name, test := range map[string]struct{ revoke, restore func() }{
		"suspended": {
			onClient(func(c *v1beta1.ApiClient) { c.Spec.Suspend = true }),
			onClient(func(c *v1beta1.ApiClient) { c.Spec.Suspend = false }),
		},
		"expired": { // without another change when it does
			onClient(func(c *v1beta1.ApiClient) {
				c.Spec.ExpirationTime = &metav1.Time{Time: time.Now().Add(2 * time.Second)}
			}),
			onClient(func(c *v1beta1.ApiClient) { c.Spec.ExpirationTime = nil }),
		},
		"grant lost": {
			onRealm(func(r *v1beta1.Realm) { r.Spec.Grants[0].Scopes = v1beta1.GrantedScopes{"read"} }),
			onRealm(func(r *v1beta1.Realm) { r.Spec.Grants[0].Scopes = v1beta1.GrantedScopes{"*"} }),
		},
		"realm suspended": {
			onRealm(func(r *v1beta1.Realm) { r.Spec.Suspend = true }),
			onRealm(func(r *v1beta1.Realm) { r.Spec.Suspend = false }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.revoke()
			l.await(t, reference, statuslist.Invalid)
			test.restore()
			l.await(t, reference, statuslist.Valid)
			inst.AwaitTokens(t, l.credentials, true)
			if got := l.reference(t); got != reference {
				t.Errorf("a later token refers to %+v, want %+v", got, reference)
			}
		})
	}
}

// A change that revokes tokens for good gives later tokens another index or another list.
func testStatusOfRevokedToken(t *testing.T, inst *install.Installation) {
	l := newListed(t, inst, "status-of-revoked-token")
	other := install.ApiClient(inst.Env.Namespace(t), "other", l.realm.Name)
	inst.Create(t, other)
	scenario.AwaitUsable(t, inst, other)
	unaffected := statuslist.Of(t, inst.AccessToken(t, inst.CredentialsSecret(t, other)))

	before := l.reference(t)
	sameList := func(r statuslist.Reference) bool { return r.URI == before.URI && r.Index != before.Index }
	inAnHour := metav1.NewTime(time.Now().Add(time.Hour)) // by mistake
	install.Change(t, inst, l.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend, c.Spec.TokensValidAfterTime = true, &inAnHour })
	l.await(t, before, statuslist.Invalid)
	install.Change(t, inst, l.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend, c.Spec.TokensValidAfterTime = false, nil })
	l.awaitReference(t, "to have the same index after a suspension", func(r statuslist.Reference) bool { return r == before })
	l.await(t, before, statuslist.Valid) // A list can be a second older than the tokens.

	install.Change(t, inst, l.client, func(c *v1beta1.ApiClient) { c.Spec.TokensValidAfterTime = &inAnHour })
	l.await(t, before, statuslist.Invalid)
	install.Change(t, inst, l.client, func(c *v1beta1.ApiClient) { c.Spec.TokensValidAfterTime = nil })
	before = l.awaitReference(t, "to have another index after tokensValidAfterTime was removed", sameList)
	l.await(t, before, statuslist.Valid)
	install.Change(t, inst, l.client, func(c *v1beta1.ApiClient) {
		c.Spec.TokensValidAfterTime = &metav1.Time{Time: time.Now().Add(time.Second)}
	})
	l.await(t, before, statuslist.Invalid)
	later := l.awaitReference(t, "to have another index after tokensValidAfterTime of the client", sameList)
	l.await(t, later, statuslist.Valid)
	l.await(t, before, statuslist.Invalid)

	before = later
	inst.Delete(t, l.client)
	l.await(t, before, statuslist.Invalid)
	inst.AwaitTokens(t, l.credentials, false)
	l.client = install.ApiClient(l.client.Namespace, l.client.Name, l.realm.Name)
	if err := inst.Env.Client.Delete(t.Context(), l.credentials.DeepCopy()); client.IgnoreNotFound(err) != nil {
		t.Fatal(err) // The garbage collector can be slow.
	}
	inst.Create(t, l.client)
	scenario.AwaitUsable(t, inst, l.client)
	l.credentials = inst.CredentialsSecret(t, l.client)
	later = l.awaitReference(t, "to have another index after the client was created again", sameList)
	l.await(t, later, statuslist.Valid)
	l.await(t, before, statuslist.Invalid)
	l.await(t, unaffected, statuslist.Valid)

	before = later
	install.Change(t, inst, l.realm, func(r *v1beta1.Realm) { r.Spec.TokensValidAfterTime = &metav1.Time{Time: time.Now().Add(time.Second)} })
	statuslist.AwaitEnded(t, inst, l.credentials, before.URI)
	later = l.awaitReference(t, "to have another list after tokensValidAfterTime of the realm", func(r statuslist.Reference) bool {
		return r.Index == before.Index && number(t, r.URI) > number(t, before.URI)
	})
	l.await(t, later, statuslist.Valid)
	l.await(t, statuslist.Reference{URI: later.URI, Index: unaffected.Index}, statuslist.Valid)
	statuslist.AwaitEnded(t, inst, l.credentials, before.URI)
}

// number returns the number of the list at uri.
func number(t *testing.T, uri string) int {
	t.Helper()
	n, err := strconv.Atoi(uri[strings.LastIndexByte(uri, '/')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// After statusList was disabled, tokens don't refer to the list any longer. It is served for earlier ones.
func testStatusListDisabled(t *testing.T, inst *install.Installation) {
	l := newListed(t, inst, "status-list-disabled")
	before := l.reference(t)
	enable := func(enabled bool) func(*v1beta1.Realm) {
		return func(r *v1beta1.Realm) { r.Spec.StatusList.Enabled = enabled }
	}
	install.Change(t, inst, l.realm, enable(false))
	l.awaitReference(t, "to have no reference", func(r statuslist.Reference) bool { return r == statuslist.Reference{} })
	inst.AwaitReady(t, l.realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	if got := l.realm.Status.StatusListURI; got != before.URI {
		t.Errorf("the list of the realm is %q, want %q until the last token with it has expired", got, before.URI)
	}
	l.await(t, before, statuslist.Valid)
	install.Change(t, inst, l.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	l.await(t, before, statuslist.Invalid)
	install.Change(t, inst, l.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
	l.await(t, before, statuslist.Valid)
	install.Change(t, inst, l.realm, enable(true))
	l.awaitReference(t, "to refer to the list again", func(r statuslist.Reference) bool { return r == before })
}

// The list is served as HTTP clients and caches expect, and no list that never was is served.
func testStatusListOverHTTP(t *testing.T, inst *install.Installation) {
	l := newListed(t, inst, "status-list-over-http")
	uri := l.reference(t).URI
	for _, s := range inst.Servers() {
		transport, ok := s.Client(t).Transport.(*http.Transport)
		if !ok {
			t.Fatal("the client has another transport")
		}
		transport.DisableCompression = true // The test decompresses.
		get := func(uri string, header http.Header) (*http.Response, []byte) { return fetch(t, transport, uri, header) }

		response, plain := get(uri, nil)
		for name, want := range map[string]string{
			"Content-Type": "application/statuslist+jwt", "Access-Control-Allow-Origin": "*", "Cache-Control": "public, no-cache",
			"Vary": "Accept-Encoding", "Content-Encoding": "",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s has the header %s %q, want %q", s.Name, name, got, want)
			}
		}
		install.Eventually(t, "a list that has not changed between two requests", func() error {
			response, _ := get(uri, nil)
			header := http.Header{"If-None-Match": {response.Header.Get("ETag")}}
			again, body := get(uri, header)
			if response.Header.Get("ETag") == "" || again.StatusCode != http.StatusNotModified || len(body) > 0 {
				return fmt.Errorf("ETag %s, then %s with %d bytes", header, again.Status, len(body))
			}
			return nil
		})
		install.Eventually(t, "a compressed list with the same content", func() error {
			response, plain = get(uri, nil)
			compressed, body := get(uri, http.Header{"Accept-Encoding": {"br, gzip"}})
			if compressed.Header.Get("Content-Encoding") != "gzip" {
				t.Fatalf("%s has the Content-Encoding %q", s.Name, compressed.Header.Get("Content-Encoding"))
			}
			r, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				return err
			}
			if body, err = io.ReadAll(r); err != nil || !bytes.Equal(body, plain) {
				return fmt.Errorf("%d bytes instead of %d: %w", len(body), len(plain), err)
			}
			return nil
		})
		current := number(t, uri)
		base := strings.TrimSuffix(uri, strconv.Itoa(current))
		for _, other := range []string{strconv.Itoa(current + 1), strconv.Itoa(current - 1), "0" + strconv.Itoa(current), "0", "-1", "latest"} {
			response, body := get(base+other, nil)
			var rejection install.TokenResponse
			if err := json.Unmarshal(body, &rejection); err != nil || response.StatusCode != http.StatusNotFound || rejection.Error == "" {
				t.Errorf("%s responds with %s %s to list %s, want 404 and an error: %v", s.Name, response.Status, body, other, err)
			}
		}
	}
}

// fetch returns the response to a GET request, and its body.
func fetch(t *testing.T, transport http.RoundTripper, uri string, header http.Header) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, uri, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

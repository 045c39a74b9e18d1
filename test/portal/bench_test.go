package portal_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// What pages of the list cost among 10,000 clients, beside what the API server takes for the same
// objects; and a search that finds nothing, which reads all of them.
func BenchmarkList(b *testing.B) {
	const clients = 10_000
	i := startInstance(b)
	i.StopOperator(b) // it would write as many statuses
	team := i.Env.Namespace(b)
	var making errgroup.Group
	making.SetLimit(16)
	for k := range clients {
		making.Go(func() error {
			return i.Env.Client.Create(b.Context(), testinstall.ApiClient(team, fmt.Sprintf("client-%05d", k), "acme"))
		})
	}
	if err := making.Wait(); err != nil {
		b.Fatal(err)
	}
	session := signedIn(b, i)
	b.Run("a page of the portal", func(b *testing.B) {
		for b.Loop() {
			fetch(b, i.portal.URL+"/clients?realm=acme", session)
		}
	})
	api := apiServer(b, i)
	b.Run("the same objects of the API server", func(b *testing.B) {
		for b.Loop() {
			api("limit=50&fieldSelector=spec.realmRef.name%3Dacme")
		}
	})
	b.Run("a search through all", func(b *testing.B) {
		for b.Loop() {
			fetch(b, i.portal.URL+"/clients?search=nothing-like-it", session)
		}
	})
	b.Run("all objects of the API server", func(b *testing.B) {
		for b.Loop() {
			for token := "-"; token != ""; {
				token = api("limit=500&continue=" + strings.Trim(token, "-"))
			}
		}
	})
}

// apiServer returns what reads a list of clients and nothing of it but where it goes on.
func apiServer(b *testing.B, i *instance) func(query string) string {
	b.Helper()
	c, err := rest.HTTPClientFor(i.Env.Config)
	if err != nil {
		b.Fatal(err)
	}
	next := regexp.MustCompile(`"continue":"([^"]*)"`)
	return func(query string) string {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, i.Env.Config.Host+"/apis/auth.realmkeeper.dev/v1alpha1/apiclients?"+query, http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		answer, err := c.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Fatalf("GET %s is answered with %s: %v", query, answer.Status, err)
		}
		if found := next.FindSubmatch(body[max(0, len(body)-4096):]); found != nil {
			return string(found[1])
		}
		return ""
	}
}

// signedIn returns the cookies of the initial admin.
func signedIn(b *testing.B, i *instance) []*http.Cookie {
	b.Helper()
	form := url.Values{"token": {i.admin}}.Encode()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, i.portal.URL+"/sign-in", strings.NewReader(form))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.Cookies()
}

func fetch(b *testing.B, url string, session []*http.Cookie) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range session {
		if c.MaxAge >= 0 {
			r.AddCookie(c)
		}
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		b.Fatalf("GET %s is answered with %s: %v", url, answer.Status, err)
	}
}

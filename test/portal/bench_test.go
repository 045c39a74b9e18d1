package portal_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

var benchClients = flag.Int("clients", 10_000, "Number of clients of BenchmarkList")

// BenchmarkList measures pages of lists with 10,000 clients. It compares each page with the time that
// the API server alone takes to return the clients for the page. The two measurements alternate,
// because other processes affect both of them. The metric ratio is the ratio of the medians.
func BenchmarkList(b *testing.B) {
	i := startInstance(b)
	i.StopOperator(b) // a running operator would update all statuses
	team := i.Env.Namespace(b)
	var creating errgroup.Group
	creating.SetLimit(16)
	for k := range *benchClients {
		creating.Go(func() error { return createReady(b.Context(), i, team, fmt.Sprintf("client-%05d", k)) })
	}
	if err := creating.Wait(); err != nil {
		b.Fatal(err)
	}
	session, api := signedIn(b, i), apiServer(b, i)
	page := func(query string) func() { return func() { api("limit=50" + query) } }
	all := func() {
		for token := "-"; token != ""; {
			token = api("limit=500&continue=" + strings.Trim(token, "-"))
		}
	}
	for _, bench := range []struct {
		name, path string
		alone      func()
	}{
		{"page", "/clients", page("")},
		{"page of a realm", "/clients?realm=acme", page("&fieldSelector=spec.realmRef.name%3Dacme")},
		{"page sorted by last use", "/clients?sort=used", all},
		{"search without matches", "/clients?search=nothing-like-it", all},
		{"overview", "/", all},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var portal, alone []time.Duration
			measure := func(times *[]time.Duration, f func()) {
				start := time.Now()
				f()
				*times = append(*times, time.Since(start))
			}
			for b.Loop() {
				measure(&portal, func() { fetch(b, i.portal.URL+bench.path, session) })
				measure(&alone, bench.alone)
			}
			slices.Sort(portal)
			slices.Sort(alone)
			b.ReportMetric(float64(portal[len(portal)/2])/float64(alone[len(alone)/2]), "ratio")
			b.ReportMetric(portal[len(portal)/2].Seconds()*1000, "portal-ms")
			b.ReportMetric(alone[len(alone)/2].Seconds()*1000, "API-ms")
		})
	}
}

// createReady creates a client and writes its status as the operator would.
func createReady(ctx context.Context, i *instance, namespace, name string) error {
	c := install.ApiClient(namespace, name, "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.Description, c.Spec.Scopes = "Sends invoices. Owned by the billing team.", []string{"orders.read"}
	})
	if err := i.Env.Client.Create(ctx, c); err != nil {
		return err
	}
	now := metav1.Now()
	for _, condition := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: string(condition), Status: metav1.ConditionTrue, Reason: string(v1alpha1.ReasonReady), ObservedGeneration: c.Generation,
			LastTransitionTime: now, Message: "All token servers have loaded the latest configuration.",
		})
	}
	c.Status.ObservedGeneration, c.Status.ClientID, c.Status.SecretName = c.Generation, c.EffectiveClientID(), name
	c.Status.TokenEndpoint = "https://auth.example.com/acme/token"
	c.Status.Secrets = []v1alpha1.ClientSecretStatus{{ID: name, Role: v1alpha1.SecretRoleCurrent, CreatedAt: now}}
	return i.Env.Client.Status().Update(ctx, c)
}

// apiServer returns a function that lists ApiClients as the user of the portal, and returns the continue
// token.
func apiServer(b *testing.B, i *instance) func(query string) string {
	b.Helper()
	config := rest.AnonymousClientConfig(i.Env.Config)
	config.BearerToken, config.DisableCompression = i.admin, true // as in the portal
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	next := regexp.MustCompile(`"continue":"([^"]*)"`)
	return func(query string) string {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, i.Env.Config.Host+"/apis/auth.realmkeeper.dev/v1alpha1/apiclients?"+query, http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		response, err := c.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			b.Fatalf("GET %s: %s, %v", query, response.Status, err)
		}
		if found := next.FindSubmatch(body[max(0, len(body)-4096):]); found != nil {
			return string(found[1])
		}
		return ""
	}
}

// signedIn signs in as the initial admin and returns the session cookies.
func signedIn(b *testing.B, i *instance) []*http.Cookie {
	b.Helper()
	form := url.Values{"token": {i.admin}}.Encode()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, i.portal.URL+"/sign-in", strings.NewReader(form))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	return response.Cookies()
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
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("GET %s: %s, %v", url, response.Status, err)
	}
}

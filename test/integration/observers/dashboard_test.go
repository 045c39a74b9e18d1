package observers_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/kmsplugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const charts = "../../../charts/realmkeeper"

// scrape is the metrics page of one process at one point in time. It is part of the input of
// test/promql.
type scrape struct {
	At     time.Time         `json:"at"`
	Labels map[string]string `json:"labels"`
	Text   string            `json:"text"`
}

// queryResult is the result of one query. It is part of the output of test/promql.
type queryResult struct {
	Query  string `json:"query"`
	Error  string `json:"error"`
	Series []struct {
		Labels map[string]string `json:"labels"`
		Value  string            `json:"value"`
	} `json:"series"`
}

// TestDashboardAndAlerts checks that every dashboard panel shows data for a running service, and
// that every alert is a valid Prometheus query.
func TestDashboardAndAlerts(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{KeyEncryption: true})
	inst.KMSSocket = kmsplugin.Start(t).Socket
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	realm, c := scenario.NewClient(t, inst, "acme")
	install.Change(t, inst, realm, func(r *v1beta1.Realm) {
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{{Name: "edge", Issuer: "https://issuer.invalid"}}
	})
	use := newUsage(t, inst, c)
	portal := inst.StartPortal(t)

	var scrapes []scrape
	at := time.Now()
	for range 3 {
		use()
		at = at.Add(15 * time.Second) // a common scrape interval
		for _, s := range inst.Servers() {
			scrapes = append(scrapes, scrape{at, map[string]string{"job": "realmkeeper-token-server", "pod": s.Name}, s.Metrics(t)})
		}
		scrapes = append(scrapes,
			scrape{at, map[string]string{"job": "realmkeeper-operator", "pod": "operator"}, inst.OperatorMetrics(t)},
			scrape{at, map[string]string{"job": "realmkeeper-portal", "pod": "portal"}, portal.Metrics(t)})
	}
	panels := panelQueries(t)
	alerts := alertQueries(t)
	var queries []string
	for _, query := range panels {
		queries = append(queries, query)
	}
	const builds = `count by (job) (realmkeeper_build_info{version!="",revision!="",goversion=~"go1.+"} == 1)`
	queries = append(queries, builds)
	results := evaluate(t, append(queries, alerts...), at, scrapes)[0]
	if got := results[builds]; len(got.Series) != 3 {
		t.Errorf("the operator, the token servers, and the portal should have the metric of their build: %+v", got)
	}
	for title, query := range panels {
		got := results[query]
		if got.Error != "" || len(got.Series) == 0 {
			t.Errorf("the panel %q shows no data: %s: %s", title, query, got.Error)
		}
		for _, one := range got.Series {
			if value, err := strconv.ParseFloat(one.Value, 64); err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
				t.Errorf("the panel %q shows %s for %v", title, one.Value, one.Labels)
			}
		}
	}
	for _, query := range alerts {
		if got := results[query]; got.Error != "" {
			t.Errorf("the alert %s: %s", query, got.Error)
		}
	}
}

// newUsage returns a function that sends every kind of request that the metrics count.
func newUsage(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) func() {
	t.Helper()
	const password = "correct horse battery staple"
	verifier, err := clientsecret.HashArgon2id(password, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hashed := install.ApiClient(c.Namespace, "hashed", "acme", func(h *v1beta1.ApiClient) {
		h.Spec.Secret = &v1beta1.ClientSecretSource{Hashed: []v1beta1.HashedSecret{{ID: "only", Hash: verifier.String()}}}
	})
	limited := install.ApiClient(c.Namespace, "limited", "acme", func(l *v1beta1.ApiClient) { l.Spec.Limits.TokensPerSecondPerServer = 1 })
	inst.Create(t, hashed, limited)
	inst.AwaitReady(t, hashed, metav1.ConditionTrue, v1beta1.ReasonReady)
	inst.AwaitReady(t, limited, metav1.ConditionTrue, v1beta1.ReasonReady)

	credentials := inst.CredentialsSecret(t, c)
	with := func(clientID, secret string) *corev1.Secret {
		s := credentials.DeepCopy()
		s.Data[v1beta1.SecretKeyClientID], s.Data[v1beta1.SecretKeyClientSecret] = []byte(clientID), []byte(secret)
		return s
	}
	requests := []*corev1.Secret{
		credentials, with(c.EffectiveClientID(), "wrong"), with("unknown", "wrong"), with(hashed.EffectiveClientID(), password),
		inst.CredentialsSecret(t, limited), inst.CredentialsSecret(t, limited), inst.CredentialsSecret(t, limited),
	}
	return func() {
		for _, s := range inst.Servers() {
			httpClient := s.Client(t)
			for _, secret := range requests {
				if _, err := install.RequestToken(t, s, httpClient, secret); err != nil {
					t.Fatal(err)
				}
			}
			checkInvalidToken(t, httpClient, credentials)
		}
	}
}

// checkInvalidToken sends an invalid token to the introspection endpoint, and a request without a
// token to the verify endpoint.
func checkInvalidToken(t *testing.T, httpClient *http.Client, credentials *corev1.Secret) {
	t.Helper()
	issuer := string(credentials.Data[v1beta1.SecretKeyIssuer])
	introspection, err := http.NewRequestWithContext(t.Context(), http.MethodPost, issuer+"/oauth2/introspect", strings.NewReader(url.Values{"token": {"none"}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	introspection.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	introspection.SetBasicAuth(string(credentials.Data[v1beta1.SecretKeyClientID]), string(credentials.Data[v1beta1.SecretKeyClientSecret]))
	verification, err := http.NewRequestWithContext(t.Context(), http.MethodGet, issuer+"/oauth2/verify", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*http.Request{introspection, verification} {
		response, err := httpClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
}

// panelQueries returns the dashboard's queries by panel title. Grafana's variables are replaced.
func panelQueries(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(charts, "dashboards", "realmkeeper.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$realm", ".*")
	queries := map[string]string{}
	for _, panel := range board.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 || queries[panel.Title] != "" {
			t.Errorf("the panel %q has no query, or its title is not unique", panel.Title)
		}
		for _, target := range panel.Targets {
			queries[panel.Title] = variables.Replace(target.Expr)
		}
	}
	return queries
}

// alertQueries returns the queries of the chart's alerts. The queries contain no Helm templates.
func alertQueries(t *testing.T) (queries []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(charts, "templates", "monitoring", "prometheus_rule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, query, found := strings.Cut(line, " expr: "); found {
			var plain string
			if err := yaml.Unmarshal([]byte(query), &plain); err != nil {
				t.Fatal(err)
			}
			queries = append(queries, plain)
		}
	}
	if len(queries) == 0 {
		t.Error("the chart has no alerts")
	}
	return queries
}

// evaluate runs the queries in the Prometheus engine on each of the metrics. The engine is used by a
// separate module.
func evaluate(t *testing.T, queries []string, at time.Time, metrics ...[]scrape) []map[string]queryResult {
	t.Helper()
	in := &bytes.Buffer{}
	for _, scrapes := range metrics {
		if err := json.NewEncoder(in).Encode(map[string]any{"queries": queries, "at": at, "scrapes": scrapes}); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "run", ".")
	command.Dir = filepath.Join("..", "..", "promql")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out, problems bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = in, &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("test/promql: %v\n%s", err, &problems)
	}
	var all []map[string]queryResult
	for responses := json.NewDecoder(&out); len(all) < len(metrics); {
		var results []queryResult
		if err := responses.Decode(&results); err != nil {
			t.Fatal(err)
		}
		byQuery := map[string]queryResult{}
		for _, result := range results {
			byQuery[result.Query] = result
		}
		all = append(all, byQuery)
	}
	return all
}

package attack_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/test/attack/honest"
	"github.com/realmkeeper/realmkeeper/test/attack/report"
	"github.com/realmkeeper/realmkeeper/test/attack/target"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Forged tokens of a trusted issuer, with unknown keys and with wrong signatures, don't disturb
// honest clients, and make the token server ask for the issuer's keys at most once a minute.
func TestForgedTokensOfAnIssuer(t *testing.T) {
	writeReport(t)
	cluster := env.Start(t)
	client := target.NewClient(t, "honest")
	records := target.Fill(t, cluster, 100, client)
	server := target.StartTokenServer(t, cluster, records)
	api, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	const forgeries = 500
	attack := honest.Start(t, honest.Options{
		Address: server.Address, HostName: target.HostName, Roots: server.Roots, Source: attackerSource, Rate: forgeries,
		Call: sharingConnections(sendForged),
	})
	load := honest.Start(t, honest.Options{
		Address: server.Address, HostName: target.HostName, Roots: server.Roots, Source: honestSource, Rate: rate,
		Call: honest.Tokens("https://"+target.HostName+target.TokenPath, client.ID, client.Secret),
	})
	began := time.Now()
	asked := map[heartbeat.Refresh]bool{}
	for time.Since(began) < *duration && t.Context().Err() == nil {
		lease, err := api.CoordinationV1().Leases(records).Get(t.Context(), heartbeat.LeaseName("attacked"), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // the server creates it soon after it starts
			t.Fatal(err)
		}
		for _, r := range heartbeat.ParseRefresh(lease) {
			asked[r] = true
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	forged, got := attack.Stop(), load.Stop()
	rejected := server.Metric(t, `realmkeeper_assertions_total{issuer="issuer",realm="acme",result="unknown_key"}`)
	peak, err := server.Peak()
	if err != nil {
		t.Fatal(err)
	}
	row := report.Row{
		Server: "token-server", Attack: fmt.Sprintf("%d forged tokens/s of a trusted issuer", forgeries), Sources: "one", Seconds: int(duration.Seconds()),
		Peak: peak, Limit: server.Group.Limit, Restarts: server.Restarts(), Calls: got.Calls, Success: got.Success(),
		P99:      got.Percentile(0.99).Round(10 * time.Microsecond).String(),
		Attacked: fmt.Sprintf("%d forged tokens, %.0f of them with an unknown key, caused %d requests for keys", forged.Calls, rejected, len(asked)),
		Shed:     target.Describe(nil, server.Shed(t)),
	}
	results.Add(row)
	t.Logf("%+v; errors of forgeries: %v", row, forged.Errors)
	if oneSource.fails(got) || row.Restarts > 0 {
		t.Errorf("%.2f %% of %d calls succeeded with %d restarts; errors: %v", 100*row.Success, row.Calls, row.Restarts, got.Errors)
	}
	if most := 1 + int(*duration/time.Minute); len(asked) == 0 || len(asked) > most {
		t.Errorf("the token server asked for keys %d times in %s, want 1 to %d", len(asked), *duration, most)
	}
	if rejected == 0 {
		t.Error("no token with an unknown key arrived")
	}
}

// Anyone can send a token that seems to be one of the cluster's, with an unknown key. While the API
// server doesn't respond, such tokens must not take the places of honest clients.
func TestForgedServiceAccountTokensWhileTheAPIServerHangs(t *testing.T) {
	writeReport(t)
	cluster := env.Start(t)
	client := target.NewClient(t, "honest")
	records := target.Fill(t, cluster, 100, client)
	inst := &install.Installation{Env: cluster}
	link := inst.StartLink(t)
	server := target.StartTokenServer(t, cluster, records, "--kubeconfig", inst.KubeconfigFor(t, link.URL))
	install.Eventually(t, "the token server to load the cluster's keys", func() error {
		if server.Metric(t, "realmkeeper_cluster_keys_last_success_timestamp_seconds") == 0 {
			return errors.New("it has not loaded them")
		}
		return nil
	})
	link.Hang()
	// Each source can have a quarter of the 256 places. Requests that wait 3 seconds for the API server
	// would take all of them in less than a second.
	const forgeries = 86
	var attacks []*honest.Load
	for _, source := range []string{"127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8"} {
		attacks = append(attacks, honest.Start(t, honest.Options{
			Address: server.Address, HostName: target.HostName, Roots: server.Roots, Source: source, Rate: forgeries,
			Call: sharingConnections(func(ctx context.Context, client *http.Client, number int) error {
				return present(ctx, client, number, forged(fmt.Sprintf("unknown-%d", number), "https://kubernetes.default.svc", "system:serviceaccount:apps:billing"))
			}),
		}))
	}
	load := honest.Start(t, honest.Options{
		Address: server.Address, HostName: target.HostName, Roots: server.Roots, Source: honestSource, Rate: rate,
		Call: honest.Tokens("https://"+target.HostName+target.TokenPath, client.ID, client.Secret),
	})
	select {
	case <-time.After(*duration):
	case <-t.Context().Done():
	}
	got := load.Stop() // while the attack goes on
	link.Restore(t)    // the server reports to the API server before it stops
	sent := 0
	for _, attack := range attacks {
		result := attack.Stop()
		sent += result.Calls
		t.Logf("Errors of forgeries: %v", result.Errors)
	}
	rejected := server.Metric(t, `realmkeeper_assertions_total{issuer="kubernetes",realm="acme",result="temporarily_unavailable"}`)
	peak, err := server.Peak()
	if err != nil {
		t.Fatal(err)
	}
	row := report.Row{
		Server: "token-server", Attack: fmt.Sprintf("%d forged service account tokens/s while the API server hangs", len(attacks)*forgeries), Sources: "four", Seconds: int(duration.Seconds()),
		Peak: peak, Limit: server.Group.Limit, Restarts: server.Restarts(), Calls: got.Calls, Success: got.Success(),
		P99:      got.Percentile(0.99).Round(10 * time.Microsecond).String(),
		Attacked: fmt.Sprintf("%d forged tokens, %.0f of them got 503", sent, rejected),
		Shed:     target.Describe(nil, server.Shed(t)),
	}
	results.Add(row)
	if got.Calls == 0 || got.Failed > 0 || row.Restarts > 0 {
		t.Errorf("%d of %d calls failed with %d restarts; errors: %v", got.Failed, got.Calls, row.Restarts, got.Errors)
	}
	if rejected == 0 {
		t.Error("no forged token arrived")
	}
}

// sharingConnections makes all calls with the client of the first one. A connection for each forgery
// would be a flood of handshakes.
func sharingConnections(call honest.Call) honest.Call {
	var (
		once   sync.Once
		shared *http.Client
	)
	return func(ctx context.Context, client *http.Client, number int) error {
		once.Do(func() { shared = client })
		return call(ctx, shared, number)
	}
}

// sendForged sends a token that names the issuer but that the issuer didn't sign.
func sendForged(ctx context.Context, client *http.Client, number int) error {
	keyID := target.IssuerKeyID
	if number%2 == 0 {
		keyID = fmt.Sprintf("unknown-%d", number)
	}
	return present(ctx, client, number, forged(keyID, target.Issuer, strconv.Itoa(number)))
}

// forged returns a token with an invalid signature.
func forged(keyID, issuer, subject string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"ES256","kid":"`+keyID+`"}`)) + "." +
		encode([]byte(`{"iss":"`+issuer+`","sub":"`+subject+`","aud":"x","exp":9999999999}`)) + "." + encode(make([]byte, 64))
}

// present sends a forged token of a client with the JWT bearer grant, and returns an error unless the
// token is rejected.
func present(ctx context.Context, client *http.Client, number int, token string) error {
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {token},
		"client_id": {fmt.Sprintf("team-%03d.service-%05d", number%100, number%100)},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+target.HostName+target.TokenPath, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusBadRequest {
		return honest.StatusError(response.StatusCode)
	}
	return nil
}

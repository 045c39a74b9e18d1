package attack_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/test/attack/honest"
	"github.com/realmkeeper/realmkeeper/test/attack/report"
	"github.com/realmkeeper/realmkeeper/test/attack/target"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
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
	var (
		once   sync.Once
		shared *http.Client
	)
	// Forgeries share a connection. A connection for each would be a flood of handshakes.
	const forgeries = 500
	attack := honest.Start(t, honest.Options{
		Address: server.Address, HostName: target.HostName, Roots: server.Roots, Source: attackerSource, Rate: forgeries,
		Call: func(ctx context.Context, client *http.Client, number int) error {
			once.Do(func() { shared = client })
			return sendForged(ctx, shared, number)
		},
	})
	load := honest.Start(t, honest.Options{
		Address: server.Address, HostName: target.HostName, Roots: server.Roots, Source: honestSource, Rate: rate,
		Call: honest.Tokens("https://"+target.HostName+target.TokenPath, client.ID, client.Secret),
	})
	began := time.Now()
	asked := map[heartbeat.Refresh]bool{}
	for time.Since(began) < *duration && t.Context().Err() == nil {
		lease, err := api.CoordinationV1().Leases(records).Get(t.Context(), heartbeat.LeaseName("attacked"), metav1.GetOptions{})
		if err != nil {
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

// sendForged sends a token that names the issuer but that the issuer didn't sign.
func sendForged(ctx context.Context, client *http.Client, number int) error {
	keyID := target.IssuerKeyID
	if number%2 == 0 {
		keyID = fmt.Sprintf("unknown-%d", number)
	}
	encode := base64.RawURLEncoding.EncodeToString
	token := encode([]byte(`{"alg":"ES256","kid":"`+keyID+`"}`)) + "." +
		encode([]byte(`{"iss":"`+target.Issuer+`","sub":"`+strconv.Itoa(number)+`","aud":"x","exp":9999999999}`)) + "." + encode(make([]byte, 64))
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

//go:build scale

package attack_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/attack/honest"
	"github.com/realmkeeper/realmkeeper/test/attack/target"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/figures"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

var capacity = flag.Int("attack.clients", 100_000, "Number of clients of the token server whose memory is measured")

var capacityReport = flag.String("attack.clients.report", "", "Path of the `file` to which the table of make scale is appended. If empty, none is written")

var errNotLoaded = errors.New("the records have not been loaded again")

// outage is so long that a token server lists all records again after the API server returns.
const outage = 35 * time.Second

// A token server with very many clients stays within the memory limit of its container when it
// starts, computes Argon2id hashes, reports the uses of all clients, and lists all records again
// after an outage of the API server. The snapshot is in a memory-backed directory and counts toward
// the limit.
func TestTokenServerScale(t *testing.T) {
	cluster := env.Start(t)
	secret := target.NewClient(t, "").Secret
	clients := make([]target.Client, *capacity)
	for i := range clients {
		clients[i] = target.Client{ID: fmt.Sprintf("team-%03d.service-%06d", i%1000, i), Secret: secret}
	}
	slow := []target.Client{slowClient(t, "slow-0"), slowClient(t, "slow-1")}
	namespace := target.Fill(t, cluster, 0, append(slow, clients...)...)

	began := time.Now()
	server := target.StartTokenServer(t, cluster, namespace)
	ready := time.Since(began)
	t.Logf("%d clients are ready after %s, of which the processor worked %.1f s", *capacity, ready.Round(100*time.Millisecond), server.Metric(t, "process_cpu_seconds_total"))
	table := figures.Table{Path: *capacityReport}
	if *capacityReport != "" { // Without a report, the machine may be busy, so the time is not checked.
		table.Add(t, figures.Row{
			What: fmt.Sprintf("token server, %d clients, ready", *capacity), Measured: fmt.Sprintf("%.1f s", ready.Seconds()),
			Reach: "at most 10 s", Reached: ready <= 10*time.Second,
		})
	}
	check := func(when string) {
		t.Helper()
		peak, err := server.Peak()
		if err != nil {
			t.Fatal(err)
		}
		limit := server.Group.Limit >> 20
		table.Add(t, figures.Row{
			What: fmt.Sprintf("token server, %d clients, peak, %s", *capacity, when), Measured: fmt.Sprintf("%d MiB, %d kills", peak>>20, server.Restarts()),
			Reach: fmt.Sprintf("within %d MiB", limit), Reached: server.Restarts() == 0 && peak>>20 < limit,
		})
	}
	check("loaded")
	useAll(t, server, slow)
	check("after Argon2id")
	useAll(t, server, clients)
	check("all clients used")
	for server.Metric(t, "realmkeeper_usage_pending_credentials") > 0 { // takes at most a minute, unless reports fail
		select {
		case <-time.After(time.Second):
		case <-t.Context().Done():
			t.Fatal("The uses were not reported before the timeout of the test")
		}
	}
	check("uses reported")

	before := server.Metric(t, "realmkeeper_registry_last_change_timestamp_seconds")
	cluster.StopAPIServer(t)
	select {
	case <-time.After(outage):
	case <-t.Context().Done():
	}
	cluster.StartAPIServer(t)
	install.Eventually(t, "the records to be loaded again", func() error {
		if server.Metric(t, "realmkeeper_registry_last_change_timestamp_seconds") == before {
			return errNotLoaded
		}
		return nil
	})
	check("loaded again")
}

// slowClient returns a client whose secret is hashed as the operator hashes chosen secrets.
func slowClient(t *testing.T, id string) target.Client {
	t.Helper()
	c := target.NewClient(t, id)
	verifier, err := clientsecret.HashArgon2id(c.Secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.Hash = verifier.String()
	return c
}

// useAll requests a token for each client.
func useAll(t *testing.T, server *target.Server, clients []target.Client) {
	t.Helper()
	const concurrent = 16
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: server.Roots, ServerName: target.HostName}, MaxIdleConnsPerHost: concurrent,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Address)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var running errgroup.Group
	running.SetLimit(concurrent)
	for i, c := range clients {
		running.Go(func() error {
			return honest.Tokens("https://"+target.HostName+target.TokenPath, c.ID, c.Secret)(t.Context(), client, i)
		})
	}
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
}

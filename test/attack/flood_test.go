package attack_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
	"github.com/realmkeeper/realmkeeper/test/attack/flood"
	"github.com/realmkeeper/realmkeeper/test/attack/honest"
	"github.com/realmkeeper/realmkeeper/test/attack/report"
	"github.com/realmkeeper/realmkeeper/test/attack/target"
	"github.com/realmkeeper/realmkeeper/test/attack/tokens"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

const (
	// others is the number of clients that are loaded in addition to the honest one.
	others = 9999
	// rate is the number of honest calls per second.
	rate = 50

	attackerSource    = "127.0.0.2"
	honestSource      = "127.0.0.3"
	proxySource       = "127.0.0.4"
	passthroughSource = "127.0.0.9"
)

// sources is where the connections of attackers and honest clients come from.
type sources struct {
	name string
	// attackers is the address that attackers connect from.
	attackers string
	// hidden means that all connections come through a relay and have its address.
	hidden bool
	// success is the share of honest calls that must succeed.
	success float64
}

// fails reports whether more honest calls failed than may fail. One may always fail, because it is
// more than its share of a short attack.
func (s sources) fails(got honest.Result) bool {
	return got.Calls == 0 || float64(got.Failed) > max(1, (1-s.success)*float64(got.Calls))
}

var (
	oneSource = sources{name: "one", attackers: attackerSource, success: 0.999}
	hidden    = sources{name: "hidden", attackers: attackerSource, hidden: true, success: 0.95}
	// oneProxy is a proxy that must send headers of the PROXY protocol.
	oneProxy = sources{name: "one proxy", attackers: proxySource, success: 0.999}
)

// loaded are the records that all token servers load.
var loaded struct {
	fill      sync.Once
	client    target.Client // the honest one
	attackers []target.Client
	namespace string
}

// victim is a program to attack.
type victim struct {
	name      string
	start     func(t *testing.T, flags ...string) *target.Server
	call      honest.Call
	get, post string
	secret    string // of the attackers' clients
	// before is the 99th percentile of honest calls before the attack, if it was measured.
	before time.Duration
}

// victims returns the token server, with 10,000 clients, and the portal.
func victims(t *testing.T) []victim {
	t.Helper()
	cluster := env.Start(t)
	loaded.fill.Do(func() {
		loaded.client = target.NewClient(t, "honest")
		secret := target.NewClient(t, "").Secret
		for n := range tokens.Clients {
			loaded.attackers = append(loaded.attackers, target.Client{ID: tokens.ClientID(n), Secret: secret})
		}
		loaded.namespace = target.Fill(t, cluster, others, append(loaded.attackers, loaded.client)...)
	})
	client, records := loaded.client, loaded.namespace
	if records == "" {
		t.Fatal("the records were not written")
	}
	return []victim{
		{
			name: "token-server",
			start: func(t *testing.T, flags ...string) *target.Server {
				t.Helper()
				return target.StartTokenServer(t, cluster, records, flags...)
			},
			call: honest.Tokens("https://"+target.HostName+target.TokenPath, client.ID, client.Secret),
			get:  "/acme/.well-known/oauth-authorization-server", post: target.TokenPath, secret: loaded.attackers[0].Secret,
		},
		{
			name: "portal",
			start: func(t *testing.T, flags ...string) *target.Server {
				t.Helper()
				return target.StartPortal(t, cluster, flags...)
			},
			call: honest.Pages("https://"+target.HostName, "/sign-in", "/assets/portal.css"),
			get:  "/sign-in", post: "/sign-in",
		},
	}
}

// A flood doesn't get a server killed, and honest clients hardly notice it.
func TestFloods(t *testing.T) {
	writeReport(t)
	for _, v := range victims(t) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel() // unless -parallel is 1, the programs share the core
			for _, from := range []sources{oneSource, hidden} {
				for _, name := range flood.Names {
					t.Run(name+"/"+from.name, func(t *testing.T) { v.flood(t, name, from) })
				}
			}
		})
	}
}

func (v victim) flood(t *testing.T, name string, from sources) {
	var flags []string
	if from.hidden {
		flags = append(flags, "--passthrough-proxies", passthroughSource+"/32")
	}
	server := v.start(t, flags...)
	attack := flood.Attacks[name]
	address := server.Address
	if from.hidden {
		address = attacker.StartRelay(t, server.Address, passthroughSource, attack.Connections+rate)
	}
	v.attack(t, server, address, name, attack, from, *duration)
}

// attack attacks the server for the given time, checks what honest clients see of it and how much
// memory the server takes, and adds a row to the report. It returns what the attackers did.
func (v victim) attack(t *testing.T, server *target.Server, address, name string, attack attacker.Attack, from sources, lasts time.Duration) attacker.Tally {
	t.Helper()
	if err := server.Group.Reset(); err != nil {
		t.Fatal(err)
	}
	shed := server.Shed(t)
	attackers := attacker.Start(t, attacker.Order{
		Attack: name, Address: address, HostName: target.HostName, Source: from.attackers,
		Get: v.get, Post: v.post, Secret: v.secret, Connections: attack.Connections,
	})
	got := v.callHonestly(t, server, address, lasts)
	tally := attackers.Stop()
	peak, err := server.Peak()
	if err != nil {
		t.Fatal(err)
	}
	row := report.Row{
		Server: v.name, Attack: name, Sources: from.name, Seconds: int(lasts.Seconds()), Peak: peak, Limit: server.Group.Limit,
		Restarts: server.Restarts(), Calls: got.Calls, Success: got.Success(), P99: v.describe(got.Percentile(0.99)),
		Attacked: fmt.Sprintf("%d connections (%d at most at once), %d handshakes, %d requests", tally.Connections, tally.Most, tally.Handshakes, tally.Requests),
		Shed:     target.Describe(shed, server.Shed(t)),
	}
	results.Add(row)
	t.Logf("%+v", row)
	if tally.Connections == 0 {
		t.Error("the attack opened no connection")
	}
	if row.Restarts > 0 {
		t.Errorf("%s exited %d times", v.name, row.Restarts)
	}
	if peak > server.Group.Limit {
		t.Errorf("%s took %d MiB, want at most %d MiB", v.name, peak>>20, server.Group.Limit>>20)
	}
	if from.fails(got) {
		t.Errorf("%.2f %% of %d honest calls succeeded, want at least %.1f %%; errors: %v", 100*got.Success(), got.Calls, 100*from.success, got.Errors)
	}
	return tally
}

// callHonestly calls the server as honest clients do for the given time.
func (v victim) callHonestly(t *testing.T, server *target.Server, address string, lasts time.Duration) honest.Result {
	t.Helper()
	load := honest.Start(t, honest.Options{
		Address: address, HostName: target.HostName, Roots: server.Roots, Source: honestSource, Rate: rate, Call: v.call,
	})
	select {
	case <-time.After(lasts):
	case <-t.Context().Done():
	}
	return load.Stop()
}

// describe returns a 99th percentile for the report, and by how much it is higher than before the attack.
func (v victim) describe(p99 time.Duration) string {
	if v.before == 0 {
		return p99.Round(time.Millisecond).String()
	}
	const precision = 10 * time.Microsecond
	return fmt.Sprintf("%s, %.2f times the %s before", p99.Round(precision), p99.Seconds()/v.before.Seconds(), v.before.Round(precision))
}

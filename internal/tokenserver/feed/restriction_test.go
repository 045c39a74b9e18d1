package feed_test

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// A record with a restriction that this version doesn't know disables the realm or the client, however it
// arrives, and counts as unreadable. While it is disabled anyway, there is nothing to report.
func TestUnknownRestrictionDisables(t *testing.T) {
	key := newKey(t, signingkey.Active)
	records := func(version string, disabled bool, restrictions record.Restrictions) (realm, client *corev1.Secret) {
		owner := &v1beta1.Realm{}
		owner.Name, owner.UID = "acme", realmUID
		realm = stored(t)(recordsecret.ForRealm("records", owner, record.Realm{
			Name: "acme", Issuer: "https://api.example.com/acme", TokenLifetimeSeconds: 300, Keys: []signingkey.Key{key},
			Disabled: disabled, Restrictions: restrictions,
		}))
		client = stored(t)(recordsecret.ForClient("records", record.Client{
			UID: "c1", Namespace: "apps", Name: "deploy", Identity: "c1", RealmUID: realmUID, RealmName: "acme", ClientID: "apps.deploy",
			Audiences: []string{"https://orders.example.com"}, Disabled: disabled, Restrictions: restrictions,
		}))
		realm.ResourceVersion, client.ResourceVersion = version, version
		return realm, client
	}
	later := record.Restrictions{"later": json.RawMessage("true")}

	dir, metrics := t.TempDir(), prometheus.NewRegistry()
	reg := registry.New()
	f := feed.New(feed.Options{
		Registry: reg, SnapshotDir: dir, Logger: slog.New(slog.DiscardHandler), Metrics: metrics, Now: time.Now,
	})
	check := func(step string, reg *registry.Registry, wantDisabled bool, wantReported float64) {
		t.Helper()
		client := reg.ClientOf(record.ClientRecordName(realmUID, "apps.deploy"))
		if realm := reg.Realm("acme"); realm.Disabled != wantDisabled || client.Disabled != wantDisabled {
			t.Errorf("%s: the realm is disabled: %t, the client: %t, want %t", step, realm.Disabled, client.Disabled, wantDisabled)
		}
		if got := gauge(t, metrics, "realmkeeper_registry_unreadable_records"); got != wantReported {
			t.Errorf("%s: %v records are reported, want %v", step, got, wantReported)
		}
	}
	update := func(realm, client *corev1.Secret) {
		t.Helper()
		testkit.Do(t, f.Update(realm))
		testkit.Do(t, f.Update(client))
	}

	realm, client := records("1", false, nil)
	testkit.Do(t, f.Replace([]any{realm, client}, "1"))
	check("no restriction", reg, false, 0)
	restrictedRealm, restrictedClient := records("2", false, later)
	update(restrictedRealm, restrictedClient)
	check("restricted", reg, true, 2)
	testkit.Do(t, f.Replace([]any{restrictedRealm, restrictedClient}, "3"))
	check("listed again", reg, true, 2)
	update(records("4", true, later))
	check("suspended", reg, true, 0)
	update(restrictedRealm, restrictedClient)
	check("resumed", reg, true, 2)

	update(records("5", false, nil))
	check("restriction lifted", reg, false, 0)
	update(restrictedRealm, restrictedClient)

	again, restarted := newFeed(dir)
	again.RestoreNow()
	check("restarted without the API server", restarted, true, 2) // the metric is that of the first process
}

// gauge returns the value of a metric without labels.
func gauge(t *testing.T, metrics prometheus.Gatherer, name string) float64 {
	t.Helper()
	for _, family := range testkit.Value(metrics.Gather())(t) {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

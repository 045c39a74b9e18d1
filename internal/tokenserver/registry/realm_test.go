package registry_test

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// A recreated realm is a different realm. The old realm's clients must not be moved to it,
// regardless of the order in which records and events arrive.
func TestRecreatedRealmHasOnlyItsOwnClients(t *testing.T) {
	type change func(*testing.T, *registry.Registry)
	var (
		setOld = func(t *testing.T, r *registry.Registry) { r.SetRealm(realm(t, "old", "acme")) }
		setNew = func(t *testing.T, r *registry.Registry) {
			r.SetRealm(realm(t, "new", "acme", createdAt(now.Add(time.Second))))
		}
		removeOld = func(_ *testing.T, r *registry.Registry) { r.Remove("old") }
		removeNew = func(_ *testing.T, r *registry.Registry) { r.Remove("new") }
		clientOld = func(_ *testing.T, r *registry.Registry) { r.SetClient(client("c-old", "old", "billing")) }
		clientNew = func(_ *testing.T, r *registry.Registry) { r.SetClient(client("c-new", "new", "billing")) }
		list      = func(uids ...string) change {
			return func(t *testing.T, r *registry.Registry) {
				var realms []*registry.Realm
				for _, uid := range uids {
					at := now
					if uid == "new" {
						at = now.Add(time.Second)
					}
					realms = append(realms, realm(t, uid, "acme", createdAt(at)))
				}
				r.Replace(realms, []*registry.Client{client("c-old", "old", "billing"), client("c-new", "new", "billing")}, nil, nil, keepNone)
			}
		}
	)
	tests := map[string]struct {
		changes []change
		want    string
	}{
		"deleted, recreated":                       {[]change{setOld, clientOld, removeOld, setNew}, ""},
		"recreated with its own client":            {[]change{setOld, clientOld, setNew, clientNew}, "c-new"},
		"client record before its realm":           {[]change{clientNew, setOld, clientOld, removeOld, setNew}, "c-new"},
		"old record removed late":                  {[]change{setOld, clientOld, setNew, clientNew, removeOld}, "c-new"},
		"old record changed late, then removed":    {[]change{setOld, setNew, clientNew, setOld, removeOld}, "c-new"},
		"list with both, new first":                {[]change{list("new", "old")}, "c-new"},
		"both removed, old first":                  {[]change{setOld, clientOld, setNew, clientNew, removeOld, removeNew}, "no realm"},
		"new realm removed and set, client stayed": {[]change{setNew, clientNew, removeNew, setNew}, "c-new"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reg := registry.New()
			for _, change := range tc.changes {
				change(t, reg)
			}
			testkit.Diff(t, "client", tc.want, found(reg, "acme", "billing"))
		})
	}
}

func TestRenamedRealmIsFoundUnderItsNewNameOnly(t *testing.T) {
	reg := registry.New()
	reg.SetRealm(realm(t, "r", "acme"))
	reg.SetClient(client("c", "r", "billing"))
	reg.SetRealm(realm(t, "r", "globex"))
	if got := []string{found(reg, "acme", "billing"), found(reg, "globex", "billing")}; !cmp.Equal(got, []string{"no realm", "c"}) {
		t.Errorf("under the old and the new name found %q, want no realm and c", got)
	}
	reg.Remove("r")
	if realms, _ := reg.Size(); realms != 0 || reg.Realm("globex") != nil {
		t.Errorf("Size() = %d realms after removal, want 0", realms)
	}
}

// Some verifiers read the metadata when they start and accept only the algorithms listed then, so it includes those
// of keys that the realm may have later.
func TestDiscoveryIncludesAllAlgorithms(t *testing.T) {
	r := realm(t, "r", "acme", func(s *registry.RealmSettings) {
		s.Keys = []signingkey.Key{testkit.Value(signingkey.Generate(signingkey.ES256, time.Now(), rand.Reader))(t)}
	})
	var got struct {
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	testkit.Do(t, json.Unmarshal(r.OpenIDConfiguration, &got))
	if want := []string{"ES256", "ES384", "EdDSA", "RS256", "PS256"}; !cmp.Equal(want, got.Algorithms) {
		t.Errorf("got algorithms %v, want %v", got.Algorithms, want)
	}
}

// Only an HTTPS URL without fragment identifies an API (RFC 9728 §1.2).
func TestResourceMetadata(t *testing.T) {
	for audience, want := range map[string]bool{
		"https://orders.example.com": true, "https://mcp.example.com/v1/mcp?tenant=a": true,
		"http://orders.example.com": false, "orders": false, "urn:example:log": false, "https:orders": false, "https://x/#a": false, "https://a@x/": false,
	} {
		r := realm(t, "r", "acme", func(s *registry.RealmSettings) { s.Audiences = []string{"https://stock.example.com", audience} })
		url := r.ResourceMetadataURL(audience)
		if (url != "") != want {
			t.Errorf("%s: metadata at %q, want any: %t", audience, url, want)
		}
		name, ok := strings.CutPrefix(url, "https://api.example.com/acme/oauth2/resource-metadata/")
		if !ok {
			continue
		}
		if want := `{"resource":"` + audience + `","authorization_servers":["https://api.example.com/acme"],"bearer_methods_supported":["header"]}`; string(r.ResourceMetadata(name)) != want {
			t.Errorf("metadata %s, want %s", r.ResourceMetadata(name), want)
		}
	}
	r := realm(t, "r", "acme", func(s *registry.RealmSettings) { s.Audiences = []string{"https://stock.example.com"} })
	if r.ResourceMetadata("") != nil || r.ResourceMetadata("https://stock.example.com") != nil || r.ResourceMetadataURL("") != "" || r.ResourceMetadataURL("https://orders.example.com") != "" {
		t.Error("the metadata of an unknown audience exists")
	}
}

package feed_test

import (
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	realmUID = types.UID("11111111-2222-3333-4444-555555555555")
	gitlab   = "https://gitlab.com"
	project  = "project_path:acme/shop:ref_type:branch:ref:main"
)

// The feed copies everything that federation and exchanges need from the records into the registry.
func TestFederationRecords(t *testing.T) {
	reg := registry.New()
	f := feed.New(feed.Options{Registry: reg, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now})
	key := testkit.Value(signingkey.Generate(signingkey.ES256, time.Now(), rand.Reader))(t)
	key.State, key.ActiveAt = signingkey.Active, time.Now()
	required := map[string]string{"namespace_id": "4711"}
	rule := record.Exchange{
		Name: "orders", Actors: record.ClientSelector{Labels: "0123"}, Issuer: "gitlab", Claims: map[string]string{"azp": "portal"},
		Audiences: []string{"https://orders.example.com"}, Scopes: []string{"orders.read"}, MaxDepth: 1, DeniedSubjects: []string{"mallory"},
	}
	realm := stored(t)(recordsecret.ForRealm("records", &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: realmUID}}, record.Realm{
		Name: "acme", Issuer: "https://api.example.com/acme", TokenLifetimeSeconds: 300, Keys: []signingkey.Key{key},
		ClusterIssuerURL: "https://realmkeeper-token-server.system.svc/acme", Audiences: []string{"https://orders.example.com"},
		Issuers: []record.Issuer{{
			Name: "gitlab", Issuer: gitlab, Audience: "https://api.example.com/acme", RequiredClaims: required, Keys: []signingkey.PublicKey{key.Public()},
			Authenticates: true, Subjects: true, IDJAG: true,
		}},
		Exchanges: []record.Exchange{rule},
	}))
	identities := []record.Identity{
		{ID: "gitlab-1", Issuer: gitlab, IssuerName: "gitlab", Subject: project},
		{ID: "gitlab-2", Issuer: gitlab, IssuerName: "gitlab", Claims: map[string]string{"project_id": "42"}},
		{ID: "pod", ServiceAccount: &record.ServiceAccount{Namespace: "apps", Name: "deploy", UID: "s1"}},
	}
	client := stored(t)(recordsecret.ForClient("records", record.Client{
		UID: "c1", Namespace: "apps", Name: "deploy", Identity: "c1", RealmUID: realmUID, RealmName: "acme", ClientID: "apps.deploy",
		Audiences: []string{"https://orders.example.com"}, Identities: identities, DPoP: true,
		DelegatedScopes: []string{"orders.read"}, NamespaceSelectors: []string{"0123"},
		Claims: []record.Claim{{Name: "tenant", Value: json.RawMessage(`"acme"`)}},
	}))
	subject := stored(t)(recordsecret.ForSubject("records", record.Subject{
		RealmUID: realmUID, RealmName: "acme", IssuerName: "gitlab", Issuer: gitlab, Subject: project, ClientID: "apps.deploy", UID: "c1", Namespace: "apps", Name: "deploy",
	}))
	holder := func() *registry.Client { return reg.Realm("acme").Holder("gitlab", gitlab, project) }

	testkit.Do(t, f.Replace([]any{realm, client, subject}, "1"))
	got := holder()
	if got == nil {
		t.Fatal("the subject has no holder")
	}
	want := &registry.Client{
		Record: client.Name, UID: "c1", RealmUID: string(realmUID), ID: "apps.deploy", Namespace: "apps", Identity: "c1",
		Audiences: []string{"https://orders.example.com"},
		Identities: []registry.Identity{
			{ID: "gitlab-1", IssuerName: "gitlab", Issuer: gitlab, Subject: project},
			{ID: "gitlab-2", IssuerName: "gitlab", Issuer: gitlab, Claims: map[string]string{"project_id": "42"}},
			{ID: "pod", Account: clientassertion.ServiceAccount{Namespace: "apps", Name: "deploy", UID: "s1"}},
		},
		Claims: []byte(`,"tenant":"acme"`), DPoP: true,
		DelegatedScopes: []string{"orders.read"}, NamespaceSelectors: []string{"0123"},
	}
	got.Secrets = nil // empty
	testkit.Diff(t, "client", want, got, cmpopts.IgnoreUnexported(registry.Client{}))
	acme := reg.Realm("acme")
	wantIssuer := &registry.Issuer{
		Name: "gitlab", Issuer: gitlab, Audience: "https://api.example.com/acme", RequiredClaims: required, Keys: []signingkey.PublicKey{key.Public()},
		Authenticates: true, Subjects: true, IDJAG: true,
	}
	testkit.Diff(t, "issuer", wantIssuer, acme.TrustedIssuer(gitlab, nil))
	testkit.Diff(t, "rules", []delegation.Rule{registry.NewRule(rule, []registry.Issuer{*wantIssuer})}, acme.Rules())
	if acme.ClusterIssuerURL != "https://realmkeeper-token-server.system.svc/acme" || acme.ResourceMetadataURL("https://orders.example.com") == "" {
		t.Errorf("cluster URL %q, metadata of the audience %q", acme.ClusterIssuerURL, acme.ResourceMetadataURL("https://orders.example.com"))
	}

	damaged := subject.DeepCopy()
	damaged.Data = nil
	for _, step := range []struct {
		name   string
		change func() error
		want   bool
	}{
		{"an unreadable record changes nothing", func() error { return f.Update(damaged) }, true},
		{"nor does a list with it", func() error { return f.Replace([]any{realm, client, damaged}, "2") }, true},
		{"deleted", func() error { return f.Delete(subject) }, false},
		{"added", func() error { return f.Add(subject) }, true},
		{"not listed", func() error { return f.Replace([]any{realm, client}, "3") }, false},
	} {
		testkit.Do(t, step.change())
		testkit.Diff(t, step.name+": has a holder", step.want, holder() != nil)
	}
}

// The feed copies what status lists need from the records, and releases an index when its record is deleted.
func TestStatusRecords(t *testing.T) {
	f, reg := newFeed("")
	key := testkit.Value(signingkey.Generate(signingkey.ES256, time.Now(), rand.Reader))(t)
	key.State, key.ActiveAt = signingkey.Active, time.Now()
	realm := stored(t)(recordsecret.ForRealm("records", &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: realmUID}}, record.Realm{
		Name: "acme", Issuer: "https://api.example.com/acme", TokenLifetimeSeconds: 300, Keys: []signingkey.Key{key},
		StatusLists: &record.StatusLists{Number: 7, TTLSeconds: 10},
	}))
	client := stored(t)(recordsecret.ForClient("records", record.Client{
		UID: "c1", Namespace: "apps", Name: "deploy", Identity: "c1", RealmUID: realmUID, RealmName: "acme", ClientID: "apps.deploy",
		Audiences: []string{"https://orders.example.com"}, StatusIndex: &record.StatusIndex{Index: 3},
	}))
	index := func(i int) *corev1.Secret {
		return stored(t)(recordsecret.ForIndex("records", record.Index{
			StatusIndex: record.StatusIndex{Index: i}, Serial: 1, UID: "c1", Namespace: "apps", Name: "deploy", RealmUID: realmUID,
		}))
	}
	damaged := index(4)
	damaged.Data = nil
	invalid := func() (all []int) {
		acme := reg.Realm("acme")
		list, _ := acme.StatusList("7")
		entries, _ := acme.StatusEntries(list, time.Now())
		for i := range entries.Len() {
			if entries.IsInvalid(i) {
				all = append(all, i)
			}
		}
		return all
	}
	for _, step := range []struct {
		name   string
		change func() error
		want   []int
	}{
		{"listed", func() error { return f.Replace([]any{realm, client, index(3), damaged}, "1") }, []int{4}},
		{"added", func() error { return f.Add(index(5)) }, []int{4, 5}},
		{"client deleted", func() error { return f.Delete(client) }, []int{3, 4, 5}},
		{"released", func() error { return f.Delete(index(3)) }, []int{4, 5}},
		{"listed again", func() error { return f.Replace([]any{realm, client, index(3), index(5)}, "2") }, []int{5}},
	} {
		testkit.Do(t, step.change())
		testkit.Diff(t, step.name+": INVALID entries", step.want, invalid())
	}
	if status := reg.Realm("acme").StatusClaim(reg.ClientOf(client.Name)); status.Index != 3 || status.Prefix == "" {
		t.Errorf("the claim of the client's tokens is %+v", status)
	}
}

// stored returns a function that returns the Secret that the API server stores.
func stored(t *testing.T) func(*corev1ac.SecretApplyConfiguration, error) *corev1.Secret {
	return func(applied *corev1ac.SecretApplyConfiguration, err error) *corev1.Secret {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		data := testkit.Value(json.Marshal(applied))(t)
		secret := &corev1.Secret{}
		testkit.Do(t, json.Unmarshal(data, secret))
		return secret
	}
}

// A restored client keeps its identity, and its restored secrets are accepted beside its own.
func TestRestoredClientRecord(t *testing.T) {
	reg := registry.New()
	f := feed.New(feed.Options{Registry: reg, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now})
	var secrets []record.ClientSecret
	for _, plaintext := range []string{"new", "restored"} {
		verifier := testkit.Value(clientsecret.Hash(plaintext, rand.Reader))(t)
		secrets = append(secrets, record.ClientSecret{ID: plaintext, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour).UTC(), Hash: verifier.String()})
	}
	client := stored(t)(recordsecret.ForClient("records", record.Client{
		UID: "c2", Namespace: "apps", Name: "deploy", Identity: "c1", RealmUID: realmUID, RealmName: "acme", ClientID: "apps.deploy",
		Audiences: []string{"https://orders.example.com"}, Secrets: secrets[:1], Restored: &record.Restored{Secrets: secrets[1:]},
	}))
	testkit.Do(t, f.Add(client))
	got := reg.ClientOf(client.Name)
	if got == nil || got.UID != "c2" || got.Identity != "c1" {
		t.Fatalf("client %+v, want UID c2 and identity c1", got)
	}
	for i, plaintext := range []string{"new", "restored"} {
		accepted := clientsecret.VerifyHMAC(got.Secrets, plaintext, time.Now())
		if accepted == nil || accepted.ID != plaintext || !accepted.ExpiresAt.Equal(secrets[i].ExpiresAt) {
			t.Errorf("secret %q: %v, want accepted with its expiration", plaintext, accepted)
		}
	}
}

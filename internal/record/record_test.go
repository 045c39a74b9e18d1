package record_test

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

const (
	namespace = "realmkeeper-system"
	realmUID  = types.UID("11111111-2222-3333-4444-555555555555")
	clientUID = types.UID("66666666-7777-8888-9999-aaaaaaaaaaaa")
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// keys returns an active and a pending key. Every call returns the same keys.
var keys = sync.OnceValue(func() []signingkey.Key {
	var all []signingkey.Key
	for _, algorithm := range []signingkey.Algorithm{signingkey.ES256, signingkey.EdDSA} {
		key, err := signingkey.Generate(algorithm, now, rand.Reader)
		if err != nil {
			panic(err)
		}
		all = append(all, key)
	}
	all[0].State, all[0].ActiveAt, all[0].LongestLifetime = signingkey.Active, now, time.Hour
	all[1].PublishedAt = now
	return all
})

func goodRealm() record.Realm {
	return record.Realm{
		Name: "acme", Issuer: "https://api.example.com/acme", Disabled: true, TokenLifetimeSeconds: 300,
		Scopes:          []string{"orders:read"},
		TokensPerSecond: 50, KeyCacheSeconds: 300, Keys: keys(),
	}
}

func goodClient(t testing.TB) record.Client {
	t.Helper()
	verifier, err := clientsecret.Hash("rk_secret", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return record.Client{
		UID: clientUID, Namespace: "apps", Name: "billing", Identity: "an older one",
		RealmUID: realmUID, RealmName: "acme", ClientID: "billing", Disabled: true, ExpiresAt: now.Add(time.Hour),
		IntrospectionAudiences: []string{"https://stock.example.com"},
		TokenLifetimeSeconds:   60, TokensPerSecond: 5, Scopes: []string{"orders:read"}, Audiences: []string{"https://orders.example.com"},
		Secrets:    []record.ClientSecret{{ID: verifier.ID(), CreatedAt: now, Hash: verifier.String()}},
		PublicKeys: []signingkey.PublicKey{keys()[0].Public(), keys()[1].Public()},

		ServiceAccounts: []record.ServiceAccount{{Namespace: "apps", Name: "billing", UID: "1"}},
	}
}

// stored returns the Secret that the API server stores for an apply configuration.
func stored(t testing.TB, applied *corev1ac.SecretApplyConfiguration) *corev1.Secret {
	t.Helper()
	data, err := json.Marshal(applied)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := json.Unmarshal(data, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func realmSecret(t testing.TB, body record.Realm) *corev1.Secret {
	t.Helper()
	applied, err := record.ForRealm(namespace, &v1alpha1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: realmUID}}, body)
	if err != nil {
		t.Fatal(err)
	}
	return stored(t, applied)
}

func clientSecret(t testing.TB, body record.Client) *corev1.Secret {
	t.Helper()
	applied, err := record.ForClient(namespace, body)
	if err != nil {
		t.Fatal(err)
	}
	return stored(t, applied)
}

// byJSON compares values by their JSON.
var byJSON = cmp.Transformer("JSON", func(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(data)
})

func diffJSON(want, got any) string {
	return cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return len(p) == 1 }, byJSON))
}

func TestRealmRoundTrip(t *testing.T) {
	tests := map[string]record.Realm{
		"all fields":          goodRealm(),
		"minimal":             {Name: "a", Issuer: "i", TokenLifetimeSeconds: 1, Keys: keys()[:1]},
		"lifetime of one day": {Name: "a", Issuer: "i", TokenLifetimeSeconds: 86400, Keys: keys()},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			secret := realmSecret(t, want)
			got, err := record.ReadRealm(secret)
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffJSON(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if record.KindOf(secret) != record.KindRealm || record.RealmUID(secret) != realmUID || record.OwnerName(secret) != (types.NamespacedName{Name: "acme"}) {
				t.Errorf("record is %s of %s %s", record.KindOf(secret), record.OwnerName(secret), record.RealmUID(secret))
			}
			if _, err := record.ReadClient(secret); err == nil {
				t.Error("ReadClient succeeds for a realm record")
			}
		})
	}
}

func TestClientRoundTrip(t *testing.T) {
	two := goodClient(t)
	two.Secrets = append(two.Secrets, goodClient(t).Secrets...)
	two.Secrets[0].ExpiresAt = now.Add(time.Hour)
	tests := map[string]record.Client{
		"all fields":  goodClient(t),
		"two secrets": two,
		"minimal":     {UID: clientUID, Namespace: "apps", Name: "billing", Identity: clientUID, RealmUID: realmUID, ClientID: "a", Audiences: []string{"b"}},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			secret := clientSecret(t, want)
			got, err := record.ReadClient(secret)
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffJSON(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if record.KindOf(secret) != record.KindClient || secret.Name != record.ClientSecretName(realmUID, want.ClientID) ||
				record.OwnerName(secret) != (types.NamespacedName{Namespace: "apps", Name: "billing"}) {
				t.Errorf("record %s is %s of %s", secret.Name, record.KindOf(secret), record.OwnerName(secret))
			}
			if _, err := record.ReadRealm(secret); err == nil {
				t.Error("ReadRealm succeeds for a client record")
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	realm, client := realmSecret(t, goodRealm()), clientSecret(t, goodClient(t))
	for _, secret := range []*corev1.Secret{realm, client} {
		secret.Data, secret.TypeMeta = nil, metav1.TypeMeta{}
	}
	controller := true
	want := []*corev1.Secret{
		{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: "realm-" + string(realmUID),
				Labels:      map[string]string{v1alpha1.RecordLabel: "realm", v1alpha1.ManagedByLabel: v1alpha1.ManagedBy},
				Annotations: map[string]string{v1alpha1.OwnerAnnotation: "acme"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "auth.realmkeeper.dev/v1alpha1", Kind: "Realm", Name: "acme", UID: realmUID, Controller: &controller,
				}},
			},
			Type: corev1.SecretTypeOpaque,
		},
		{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: record.ClientSecretName(realmUID, "billing"),
				Labels:      map[string]string{v1alpha1.RecordLabel: "client", v1alpha1.ManagedByLabel: v1alpha1.ManagedBy},
				Annotations: map[string]string{v1alpha1.OwnerAnnotation: "apps/billing"},
			},
			Type: corev1.SecretTypeOpaque,
		},
	}
	if diff := cmp.Diff(want, []*corev1.Secret{realm, client}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Two client IDs, or the same client ID in two realms, must never have the same record.
func TestClientSecretNameIsUnique(t *testing.T) {
	names := map[string][2]string{}
	for _, realm := range []string{"r", "s", "R"} {
		for _, id := range []string{"a", "A", "a/b", "/a", "a.b", strings.Repeat("a", 317)} {
			name := record.ClientSecretName(types.UID(realm), id)
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				t.Errorf("name %q: %v", name, problems)
			}
			if other, exists := names[name]; exists {
				t.Errorf("%s in %s has the same record as %s in %s", id, realm, other[1], other[0])
			}
			names[name] = [2]string{realm, id}
		}
	}
}

func TestKindOf(t *testing.T) {
	tests := map[string]struct {
		label, name string
		want        record.Kind
	}{
		"realm record":                  {"realm", "realm-1", record.KindRealm},
		"client record":                 {"client", "client-1", record.KindClient},
		"record without a label":        {"", "realm-1", record.KindRealm},
		"record with a different label": {"realm", "client-1", record.KindClient},
		"another name":                  {"realm", "other-1", ""},
		"the managed CA":                {"", "realmkeeper-ca", ""},
		"similar name":                  {"realm", "realm1", ""},
		"no key":                        {"realm", "realm-", ""},
		"kind only":                     {"realm", "realm", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: tc.name, Labels: map[string]string{v1alpha1.RecordLabel: tc.label}}}
			if got := record.KindOf(secret); got != tc.want {
				t.Errorf("KindOf: %q, want %q", got, tc.want)
			}
		})
	}
}

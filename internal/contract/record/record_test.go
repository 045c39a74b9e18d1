package record_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
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

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
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
		ClusterIssuerURL: "https://realmkeeper-token-server.realmkeeper-system.svc/acme",
		Scopes:           []string{"orders:read"}, Audiences: []string{"https://orders.example.com"},
		Issuers: []record.Issuer{{
			Name: "github", Issuer: "https://token.actions.githubusercontent.com", Audience: "https://api.example.com/acme",
			RequiredClaims: map[string]string{"repository_owner_id": "4711"},
			Keys:           []signingkey.PublicKey{keys()[0].Public()}, Source: "0123",
			Authenticates: true, Subjects: true, IDJAG: true,
		}},
		Exchanges:       []record.Exchange{goodExchange(), goodIssuerExchange()},
		TokensPerSecond: 50, KeyCacheSeconds: 300, Keys: keys(),
	}
}

func goodClient(t testing.TB) record.Client {
	t.Helper()
	verifier := testkit.Value(clientsecret.Hash("rk_secret", rand.Reader))(t)
	return record.Client{
		UID: clientUID, Namespace: "apps", Name: "billing", Identity: "an older one",
		RealmUID: realmUID, RealmName: "acme", ClientID: "billing", Disabled: true, ExpiresAt: now.Add(time.Hour),
		IntrospectionAudiences: []string{"https://stock.example.com"},
		TokenLifetimeSeconds:   60, TokensPerSecond: 5, Scopes: []string{"orders:read"}, Audiences: []string{"https://orders.example.com"},
		Secrets:    []record.ClientSecret{{ID: verifier.ID(), CreatedAt: now, Hash: verifier.String()}},
		PublicKeys: []signingkey.PublicKey{keys()[0].Public(), keys()[1].Public()},

		Identities: []record.Identity{
			{ID: "billing", ServiceAccount: &record.ServiceAccount{Namespace: "apps", Name: "billing", UID: "1"}},
			{ID: "github", Issuer: "https://token.actions.githubusercontent.com", IssuerName: "github", Subject: "repo:acme/shop:ref:refs/heads/main"},
			{ID: "gitlab", Issuer: "https://gitlab.com", IssuerName: "gitlab", Claims: map[string]string{"project_path": "acme/shop"}},
		},
		DelegatedScopes: []string{"orders:write"}, NamespaceSelectors: []string{"0123"},
		DPoP: true,
		Claims: []record.Claim{
			{Name: "regions", Value: json.RawMessage(`["eu","us"]`)},
			{Name: "seats", Value: json.RawMessage(`-9007199254740991`)},
			{Name: "tenant", Value: json.RawMessage(`"acme"`)},
		},
	}
}

func goodSubject() record.Subject {
	return record.Subject{
		RealmUID: realmUID, RealmName: "acme", IssuerName: "gitlab", Issuer: "https://gitlab.com", Subject: "project_path:acme/shop",
		ClientID: "billing", UID: clientUID, Namespace: "apps", Name: "billing",
	}
}

// stored returns the Secret that the API server stores for an apply configuration.
func stored(t testing.TB, applied *corev1ac.SecretApplyConfiguration) *corev1.Secret {
	t.Helper()
	data := testkit.Value(json.Marshal(applied))(t)
	secret := &corev1.Secret{}
	testkit.Do(t, json.Unmarshal(data, secret))
	return secret
}

func realmSecret(t testing.TB, body record.Realm) *corev1.Secret {
	t.Helper()
	applied := testkit.Value(recordsecret.ForRealm(namespace, &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: realmUID}}, body))(t)
	return stored(t, applied)
}

func clientSecret(t testing.TB, body record.Client) *corev1.Secret {
	t.Helper()
	applied := testkit.Value(recordsecret.ForClient(namespace, body))(t)
	return stored(t, applied)
}

func subjectSecret(t testing.TB, body record.Subject) *corev1.Secret {
	t.Helper()
	applied := testkit.Value(recordsecret.ForSubject(namespace, body))(t)
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
			got := testkit.Value(record.ReadRealm(secret))(t)
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
			got := testkit.Value(record.ReadClient(secret))(t)
			if diff := diffJSON(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if record.KindOf(secret) != record.KindClient || secret.Name != record.ClientRecordName(realmUID, want.ClientID) ||
				record.OwnerName(secret) != (types.NamespacedName{Namespace: "apps", Name: "billing"}) {
				t.Errorf("record %s is %s of %s", secret.Name, record.KindOf(secret), record.OwnerName(secret))
			}
			if _, err := record.ReadRealm(secret); err == nil {
				t.Error("ReadRealm succeeds for a client record")
			}
		})
	}
}

func TestSubjectRoundTrip(t *testing.T) {
	secret := subjectSecret(t, goodSubject())
	got, err := record.ReadSubject(secret)
	if diff := cmp.Diff(goodSubject(), got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if record.KindOf(secret) != record.KindSubject || record.OwnerName(secret) != (types.NamespacedName{Namespace: "apps", Name: "billing"}) {
		t.Errorf("record is %s of %s", record.KindOf(secret), record.OwnerName(secret))
	}
}

func TestSecrets(t *testing.T) {
	realm, client, subject := realmSecret(t, goodRealm()), clientSecret(t, goodClient(t)), subjectSecret(t, goodSubject())
	for _, secret := range []*corev1.Secret{realm, client, subject} {
		secret.Data, secret.TypeMeta = nil, metav1.TypeMeta{}
	}
	controller := true
	want := []*corev1.Secret{
		{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: "realm-" + string(realmUID),
				Labels:      map[string]string{v1beta1.RecordLabel: "realm", v1beta1.ManagedByLabel: v1beta1.ManagedBy},
				Annotations: map[string]string{v1beta1.OwnerAnnotation: "acme"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "auth.realmkeeper.dev/v1beta1", Kind: "Realm", Name: "acme", UID: realmUID, Controller: &controller,
				}},
			},
			Type: corev1.SecretTypeOpaque,
		},
		{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: record.ClientRecordName(realmUID, "billing"),
				Labels:      map[string]string{v1beta1.RecordLabel: "client", v1beta1.ManagedByLabel: v1beta1.ManagedBy},
				Annotations: map[string]string{v1beta1.OwnerAnnotation: "apps/billing"},
			},
			Type: corev1.SecretTypeOpaque,
		},
		{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: record.SubjectRecordName(realmUID, "gitlab", "https://gitlab.com", "project_path:acme/shop"),
				Labels:      map[string]string{v1beta1.RecordLabel: "subject", v1beta1.ManagedByLabel: v1beta1.ManagedBy},
				Annotations: map[string]string{v1beta1.OwnerAnnotation: "apps/billing"},
			},
			Type: corev1.SecretTypeOpaque,
		},
	}
	testkit.Diff(t, "result", want, []*corev1.Secret{realm, client, subject})
}

// Two client IDs, two subjects, or the same one in two realms or of two issuers, never have the same record.
func TestSecretNamesAreUnique(t *testing.T) {
	names := map[string]string{}
	check := func(name string, of ...string) {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("name %q: %v", name, problems)
		}
		if other, exists := names[name]; exists {
			t.Errorf("%q has the same record as %s", of, other)
		}
		names[name] = fmt.Sprintf("%q", of)
	}
	for _, realm := range []string{"r", "s", "R"} {
		for _, id := range []string{"a", "A", "a/b", "/a", "a.b", strings.Repeat("a", 317)} {
			check(record.ClientRecordName(types.UID(realm), id), realm, id)
		}
		for _, issuer := range []string{"https://a", "https://a/", "https://a/b", "https://a/b/", "kubernetes"} {
			for _, subject := range []string{"b", "/b", "b/c", "c", "", strings.Repeat("a", 512)} {
				for _, name := range []string{"a", "aa", "kubernetes"} {
					check(record.SubjectRecordName(types.UID(realm), name, issuer, subject), realm, name, issuer, subject)
				}
			}
		}
	}
}

func TestEncodeClaims(t *testing.T) {
	const want = `,"regions":["eu","us"],"seats":-9007199254740991,"tenant":"acme"`
	testkit.Diff(t, "encoded claims", want, string(record.EncodeClaims(goodClient(t).Claims)))
	if got := record.EncodeClaims(nil); got != nil {
		t.Errorf("without claims: %q, want nothing", got)
	}
}

// The API server accepts Secrets of up to 1 MiB, with their metadata.
func TestLargestRecordsFit(t *testing.T) {
	text := strings.Repeat("a", 512)
	match := map[string]string{}
	for i := range 8 {
		match[fmt.Sprintf("%d%s", i, text[:63])] = text[:256]
	}
	key := testkit.Value(signingkey.ParsePublicKey(fmt.Appendf(nil, `{"kty":"RSA","alg":"RS256","e":"AQAB","kid":%q,"n":"%s"}`,
		text[:256], base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{255}, 512)))))(t)
	realm, client := goodRealm(), goodClient(t)
	realm.Issuers, client.Identities = nil, nil
	for i := range record.MaxIssuers {
		realm.Issuers = append(realm.Issuers, record.Issuer{
			Name: fmt.Sprintf("%d%s", i, text[:61]), Issuer: fmt.Sprintf("https://%d%s", i, text[:246]), Audience: text[:256], RequiredClaims: match,
			Keys: slices.Repeat([]signingkey.PublicKey{key}, record.MaxIssuerKeys), Source: text[:64],
		})
	}
	for range record.MaxIdentities {
		client.Identities = append(client.Identities, record.Identity{ID: text[:63], Issuer: text[:256], IssuerName: text[:63], Claims: match})
	}
	client.Claims = []record.Claim{{Name: "a", Value: json.RawMessage(`"` + text + text + text + `"`)}}
	list := record.EndedList{Number: math.MaxInt64 - 1, EndsAt: now}
	realm.StatusLists = &record.StatusLists{
		Number: math.MaxInt64, TTLSeconds: 600, ValidAfter: now, EndsAt: now, Ended: slices.Repeat([]record.EndedList{list}, record.MaxEndedLists),
	}
	client.StatusIndex, client.IndexSerial = &record.StatusIndex{Index: record.MaxIndexes - 1, ValidAfter: now}, math.MaxInt64
	testkit.Value(record.ReadRealm(realmSecret(t, realm)))(t)
	testkit.Value(record.ReadClient(clientSecret(t, client)))(t)
	const most = 900 << 10
	for name, secret := range map[string]*corev1.Secret{"realm": realmSecret(t, realm), "client": clientSecret(t, client)} {
		if size := len(secret.Data[record.DataKey]); size > most {
			t.Errorf("the largest %s record has %d bytes, want at most %d", name, size, most)
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
		"subject record":                {"subject", "subject-1", record.KindSubject},
		"record without a label":        {"", "realm-1", record.KindRealm},
		"record with a different label": {"realm", "client-1", record.KindClient},
		"the managed CA":                {"", "realmkeeper-ca", ""},
		"no key":                        {"realm", "realm-", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: tc.name, Labels: map[string]string{v1beta1.RecordLabel: tc.label}}}
			testkit.Diff(t, "kind", tc.want, record.KindOf(secret))
		})
	}
}

package record_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

func restoreSecret(t testing.TB, body record.Restore) *corev1.Secret {
	t.Helper()
	applied, err := record.ForRestore(namespace, body)
	if err != nil {
		t.Fatal(err)
	}
	return stored(t, applied)
}

func TestRestoreRoundTrip(t *testing.T) {
	twice := goodClient(t)
	twice.Restored = &record.Restoration{From: "1", BackupTime: now, At: now, Secrets: goodClient(t).Secrets}
	tests := map[string]struct {
		body        record.Restore
		wantOwner   string
		wantSecrets int
	}{
		"realm":           {record.RestoreRealm(goodRealm(), now), "acme", 0},
		"client":          {record.RestoreClient(goodClient(t), now), "apps/billing", 1},
		"restored client": {record.RestoreClient(twice, now), "apps/billing", 2},
	}
	names := map[string]bool{}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			secret := restoreSecret(t, tc.body)
			got, err := record.ReadRestore(secret)
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffJSON(tc.body, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if problems := validation.IsDNS1123Subdomain(secret.Name); len(problems) > 0 {
				t.Errorf("name %q: %v", secret.Name, problems)
			}
			names[secret.Name] = true
			want := map[string]string{v1alpha1.RecordLabel: v1alpha1.RecordRestore, v1alpha1.ManagedByLabel: v1alpha1.ManagedBy}
			if diff := cmp.Diff(want, secret.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if owner := secret.Annotations[v1alpha1.OwnerAnnotation]; owner != tc.wantOwner {
				t.Errorf("owner %q, want %q", owner, tc.wantOwner)
			}
			if secret.Immutable == nil || !*secret.Immutable {
				t.Error("the restore record can be changed")
			}
			if got.Client != nil && (len(got.Client.Secrets) != tc.wantSecrets || got.Client.Identity != "an older one") {
				t.Errorf("%d secrets, identity %q", len(got.Client.Secrets), got.Client.Identity)
			}
		})
	}
	if len(names) != 2 {
		t.Errorf("names %v, want one of the realm and one of the client", names)
	}
}

func TestRestoreRejectsInvalidBody(t *testing.T) {
	realm := func(alter func(*record.RestoredRealm)) record.Restore {
		r := record.RestoreRealm(goodRealm(), now)
		alter(r.Realm)
		return r
	}
	client := func(alter func(*record.RestoredClient)) record.Restore {
		r := record.RestoreClient(goodClient(t), now)
		alter(r.Client)
		return r
	}
	both := record.RestoreRealm(goodRealm(), now)
	both.Client = record.RestoreClient(goodClient(t), now).Client
	tests := map[string]record.Restore{
		"empty":              {BackupTime: now},
		"realm and client":   both,
		"no time":            {Realm: record.RestoreRealm(goodRealm(), now).Realm},
		"realm without name": realm(func(r *record.RestoredRealm) { r.Name = "" }),
		"realm without keys": realm(func(r *record.RestoredRealm) { r.Keys = nil }),
		"too many keys": realm(func(r *record.RestoredRealm) {
			r.Keys = append(r.Keys, slices.Repeat(r.Keys[1:], signingkey.MaxKeys)...)
		}),
		"no realm name":       client(func(c *record.RestoredClient) { c.RealmName = "" }),
		"no client ID":        client(func(c *record.RestoredClient) { c.ClientID = "" }),
		"no namespace":        client(func(c *record.RestoredClient) { c.Namespace = "" }),
		"no object name":      client(func(c *record.RestoredClient) { c.Name = "" }),
		"no identity":         client(func(c *record.RestoredClient) { c.Identity = "" }),
		"too many secrets":    client(func(c *record.RestoredClient) { c.Secrets = slices.Repeat(c.Secrets, record.MaxRestoredSecrets+1) }),
		"plaintext as secret": client(func(c *record.RestoredClient) { c.Secrets[0].Hash = canary }),
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := record.ForRestore(namespace, body)
			if !errors.Is(err, record.ErrRestore) || strings.Contains(err.Error(), canary) {
				t.Errorf("ForRestore: %v, want ErrRestore without the hash", err)
			}
		})
	}
}

func TestReadRestoreRejectsInvalidRecord(t *testing.T) {
	tests := map[string]func(*corev1.Secret){
		"name of another client":  func(s *corev1.Secret) { s.Name = record.ClientRestoreName("acme", "another") },
		"name of a client record": func(s *corev1.Secret) { s.Name = record.ClientSecretName(realmUID, "billing") },
		"client record":           func(s *corev1.Secret) { *s = *clientSecret(t, goodClient(t)) },
		"no client":               setBody("client", nil),
		"text as client":          setBody("client", canary),
		"plaintext as secret":     setBody("client", map[string]any{"realmName": "acme", "clientID": "billing", "namespace": "apps", "name": "billing", "identity": "1", "secrets": []any{map[string]any{"id": "1", "hash": canary}}}),
	}
	maps.Copy(tests, invalidRecords)
	for name, alter := range tests {
		t.Run(name, func(t *testing.T) {
			secret := restoreSecret(t, record.RestoreClient(goodClient(t), now))
			alter(secret)
			got, err := record.ReadRestore(secret)
			checkRejection(t, err, secret)
			if diff := diffJSON(record.Restore{}, got); diff != "" {
				t.Errorf("rejected record returned (-want +got):\n%s", diff)
			}
		})
	}
}

// The JSON of names must be separated, so that no client has the restore record of another one.
func TestRestoreNamesAreUnique(t *testing.T) {
	names := map[string]bool{
		record.RealmRestoreName("a"): true, record.ClientRestoreName("a", ""): true, record.ClientRestoreName("a", "b"): true,
		record.ClientRestoreName("a", "b/c"): true, record.ClientRestoreName("b", "a"): true, record.RealmRestoreName("client"): true,
	}
	if len(names) != 6 {
		t.Errorf("%d different names, want 6", len(names))
	}
}

func TestRestorableSecrets(t *testing.T) {
	secret := func(id string, age, lifetime time.Duration) record.ClientSecret {
		s := record.ClientSecret{ID: id, CreatedAt: now.Add(-age)}
		if lifetime != 0 {
			s.ExpiresAt = now.Add(lifetime)
		}
		return s
	}
	c := record.Client{Secrets: []record.ClientSecret{secret("own", 100*time.Hour, 0), secret("expired", 0, -time.Second)}, Restored: &record.Restoration{}}
	for i := range record.MaxRestoredSecrets {
		c.Restored.Secrets = append(c.Restored.Secrets, secret("restored", time.Duration(i)*time.Hour, time.Hour))
	}
	c.Restored.Secrets[3] = secret("oldest", 50*time.Hour, 0)
	restored, omitted := record.RestorableSecrets(c, now)
	if len(restored) != record.MaxRestoredSecrets || restored[0].ID != "own" || len(omitted) != 1 || omitted[0].ID != "oldest" {
		t.Errorf("restored %+v, omitted %+v", restored, omitted)
	}
}

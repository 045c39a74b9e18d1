//go:build nightly

package kms_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/kmsplugin"
	"github.com/realmkeeper/realmkeeper/test/framework/leak"
)

// recordOf returns the record Secret of a realm.
func recordOf(t *testing.T, inst *install.Installation, realm *v1beta1.Realm) (*corev1.Secret, error) {
	t.Helper()
	if realm.UID == "" {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			return nil, err
		}
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: inst.RecordsNamespace, Name: record.RealmRecordName(realm.UID)}
	return secret, inst.Env.Client.Get(t.Context(), key, secret)
}

func keysOf(t *testing.T, inst *install.Installation, realm *v1beta1.Realm) ([]signingkey.Key, error) {
	t.Helper()
	secret, err := recordOf(t, inst, realm)
	if err != nil {
		return nil, err
	}
	body, err := record.ReadRealm(secret)
	return body.Keys, err
}

var errNoKeys = errors.New("the record has no keys")

// awaitEncrypted waits until all keys in the records of the realms are encrypted with the key
// encryption key with the given ID, or with any if it is empty.
func awaitEncrypted(t *testing.T, inst *install.Installation, keyID string, realms ...*v1beta1.Realm) {
	t.Helper()
	awaitKeys(t, inst, "encrypted", realms, func(key *signingkey.Key) error {
		switch sealed := key.Sealed(); {
		case key.InPlaintext():
			return fmt.Errorf("key %s is in plaintext", key.ID)
		case sealed != nil && keyID != "" && sealed.KeyID != keyID:
			return fmt.Errorf("key %s is encrypted with %q, not with %q", key.ID, sealed.KeyID, keyID)
		}
		return nil
	})
}

// awaitPlaintext waits until no key in the records of the realms is encrypted.
func awaitPlaintext(t *testing.T, inst *install.Installation, realms ...*v1beta1.Realm) {
	t.Helper()
	awaitKeys(t, inst, "in plaintext", realms, func(key *signingkey.Key) error {
		if key.Sealed() != nil {
			return fmt.Errorf("key %s is encrypted", key.ID)
		}
		return nil
	})
}

func awaitKeys(t *testing.T, inst *install.Installation, what string, realms []*v1beta1.Realm, check func(*signingkey.Key) error) {
	t.Helper()
	for _, realm := range realms {
		install.Eventually(t, "the keys of "+realm.Name+" to be "+what, func() error {
			keys, err := keysOf(t, inst, realm)
			if err == nil && len(keys) == 0 {
				err = errNoKeys
			}
			for i := range keys {
				err = errors.Join(err, check(&keys[i]))
			}
			return err
		})
	}
}

// privateMembers returns the private members of all keys of a realm. The plugin decrypts those that are
// encrypted.
func privateMembers(t *testing.T, inst *install.Installation, plugin *kmsplugin.Plugin, realm *v1beta1.Realm) []string {
	t.Helper()
	keys, err := keysOf(t, inst, realm)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := kmsclient.Dial(kmsclient.Options{Socket: plugin.Socket, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var members []string
	for i := range keys {
		if keys[i].State == signingkey.Retiring {
			continue // It has no private part.
		}
		opened, err := keyencryption.New(conn).Open(t.Context(), &keys[i])
		if err != nil {
			t.Fatal(err)
		}
		private, err := opened.PrivateJWKS()
		if err != nil {
			t.Fatal(err)
		}
		var set struct{ Keys []map[string]any }
		if err := json.Unmarshal(private, &set); err != nil {
			t.Fatal(err)
		}
		for _, jwk := range set.Keys {
			for _, name := range []string{"d", "p", "q", "dp", "dq", "qi"} {
				if value, ok := jwk[name].(string); ok {
					raw, err := base64.RawURLEncoding.DecodeString(value)
					if err != nil {
						t.Fatal(err)
					}
					members = append(members, value, string(raw))
				}
			}
		}
	}
	if len(members) < 2 {
		t.Fatalf("%d keys have %d private members", len(keys), len(members))
	}
	return members
}

// awaitNone waits until no file of a directory contains a private member: a token server gets a changed
// record a moment after the API server has it.
func awaitNone(t *testing.T, dir string, members []string) {
	t.Helper()
	install.Eventually(t, "the private keys to leave the snapshot", func() error {
		if places := (leak.Places{dir: leak.SnapshotOf(t, dir)}).Containing(members); len(places) > 0 {
			return fmt.Errorf("%s contains them", dir)
		}
		return nil
	})
}

// expectPlaces checks which places contain private members: objects in the cluster, logs, metrics, and
// snapshots.
func expectPlaces(t *testing.T, inst *install.Installation, members []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, leak.PlacesOf(t, inst).Containing(members)); diff != "" {
		t.Errorf("places with private keys (-want +got):\n%s", diff)
	}
}

package kmsclient_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

const realm = "11111111-1111-1111-1111-111111111111"

func dial(t *testing.T, plugin *fakePlugin) *keyencryption.Encrypter {
	t.Helper()
	return dialWithTimeout(t, plugin, longTimeout)
}

func dialWithTimeout(t *testing.T, plugin *fakePlugin, timeout time.Duration) *keyencryption.Encrypter {
	t.Helper()
	client := testkit.Value(kmsclient.Dial(kmsclient.Options{Socket: plugin.Socket, Timeout: timeout}))(t)
	t.Cleanup(func() { _ = client.Close() })
	return keyencryption.New(client)
}

func generate(t *testing.T) signingkey.Key {
	t.Helper()
	return testkit.Value(signingkey.Generate(signingkey.ES256, time.Now(), rand.Reader))(t)
}

func seal(t *testing.T, client *keyencryption.Encrypter, key *signingkey.Key) signingkey.Key {
	t.Helper()
	return testkit.Value(client.Seal(t.Context(), realm, key))(t)
}

// Nothing that could be part of the private key is in the encoded form.
func TestSealedKeyCanBeOpened(t *testing.T) {
	client := dial(t, newFakePlugin(t))
	for _, algorithm := range signingkey.Algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			key := testkit.Value(signingkey.Generate(algorithm, time.Now(), rand.Reader))(t)
			encoded := testkit.Value(json.Marshal(seal(t, client, &key)))(t)
			var private struct{ Keys []map[string]any }
			testkit.Do(t, json.Unmarshal(testkit.Value(key.PrivateJWKS())(t), &private))
			testkit.Diff(t, "number of key pairs", 2, len(private.Keys))
			for _, members := range private.Keys {
				for _, name := range []string{"d", "p", "q", "dp", "dq", "qi"} {
					if value, ok := members[name].(string); ok && bytes.Contains(encoded, []byte(value)) {
						t.Errorf("the encoded sealed key contains member %q", name)
					}
				}
			}
			var sealed signingkey.Key
			testkit.Do(t, json.Unmarshal(encoded, &sealed))
			if _, err := sealed.Signer().Sign(nil, []byte("input")); !errors.Is(err, signingkey.ErrSealed) {
				t.Errorf("a sealed key signs: %v", err)
			}
			if !sealed.Public().Equal(key.Public()) {
				t.Error("the sealed key has another public key")
			}
			opened := testkit.Value(client.Open(t.Context(), &sealed))(t)
			signature := testkit.Value(opened.Signer().Sign(nil, []byte("input")))(t)
			testkit.Do(t, key.Public().Verify([]byte("input"), signature))
		})
	}
}

func TestOpenRejectsAlteredContent(t *testing.T) {
	client := dial(t, newFakePlugin(t))
	key, other := generate(t), generate(t)
	sealed, sealedOther := seal(t, client, &key), seal(t, client, &other)
	alter := func(change func(*signingkey.Sealed)) signingkey.Key {
		s := *sealed.Sealed()
		s.Ciphertext, s.EncryptedDataKey = bytes.Clone(s.Ciphertext), bytes.Clone(s.EncryptedDataKey)
		change(&s)
		return sealed.Seal(s)
	}
	for name, key := range map[string]signingkey.Key{
		"another realm is stated":    alter(func(s *signingkey.Sealed) { s.RealmUID = "22222222-2222-2222-2222-222222222222" }),
		"sealed part of another key": sealed.Seal(*sealedOther.Sealed()),
		"data key of another key":    alter(func(s *signingkey.Sealed) { s.EncryptedDataKey = sealedOther.Sealed().EncryptedDataKey }),
		"altered ciphertext":         alter(func(s *signingkey.Sealed) { s.Ciphertext[20] ^= 1 }),
		"altered nonce":              alter(func(s *signingkey.Sealed) { s.Ciphertext[0] ^= 1 }),
		"short ciphertext":           alter(func(s *signingkey.Sealed) { s.Ciphertext = s.Ciphertext[:5] }),
		"altered data key":           alter(func(s *signingkey.Sealed) { s.EncryptedDataKey[15] ^= 1 }),
		"another key of the KMS":     alter(func(s *signingkey.Sealed) { s.KeyID = "2" }),
		"annotations are missing":    alter(func(s *signingkey.Sealed) { s.Annotations = nil }),
		"data key of the wrong size": alter(func(s *signingkey.Sealed) { s.EncryptedDataKey = nil }),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := client.Open(t.Context(), &key); !errors.Is(err, keyencryption.ErrRejected) {
				t.Errorf("got error %v, want ErrRejected", err)
			}
		})
	}
}

func TestSealFailsIfThePluginCannotDecryptWhatItEncrypts(t *testing.T) {
	plugin := newFakePlugin(t)
	client := dial(t, plugin)
	key := generate(t)
	plugin.set(func(b *behavior) { b.corrupt = true })
	if _, err := client.Seal(t.Context(), realm, &key); !errors.Is(err, keyencryption.ErrRejected) {
		t.Errorf("Seal: got error %v, want ErrRejected", err)
	}
}

func TestErrorsSayWhetherThePluginIsUnavailable(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*behavior)
		want   error
	}{
		"hangs":         {func(b *behavior) { b.hangs = true }, keyencryption.ErrUnavailable},
		"not reachable": {func(b *behavior) { b.refuse = codes.Unavailable }, keyencryption.ErrUnavailable},
		"refuses":       {func(b *behavior) { b.refuse = codes.PermissionDenied }, keyencryption.ErrRejected},
		"empty key ID":  {func(b *behavior) { b.keyID = "" }, keyencryption.ErrRejected},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := newFakePlugin(t)
			timeout := longTimeout
			if name == "hangs" {
				timeout = 100 * time.Millisecond
			}
			client := dialWithTimeout(t, plugin, timeout)
			plugin.set(test.change)
			key := generate(t)
			if _, err := client.Seal(t.Context(), realm, &key); !errors.Is(err, test.want) {
				t.Errorf("Seal: got error %v, want %v", err, test.want)
			}
			if _, err := client.Status(t.Context()); !errors.Is(err, test.want) {
				t.Errorf("Status: got error %v, want %v", err, test.want)
			}
		})
	}
}

func TestClientReconnects(t *testing.T) {
	plugin := newFakePlugin(t)
	client := dial(t, plugin)
	plugin.Stop()
	if _, err := client.Status(t.Context()); !errors.Is(err, keyencryption.ErrUnavailable) {
		t.Fatalf("stopped: got error %v, want ErrUnavailable", err)
	}
	plugin.Start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if _, err := client.Status(ctx); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the client doesn't reconnect")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A standby operator sends no requests, so it must not look as if its plugin were unavailable.
func TestAvailabilityIsUnknownBeforeTheFirstRequest(t *testing.T) {
	plugin := newFakePlugin(t)
	registry := prometheus.NewRegistry()
	client := testkit.Value(kmsclient.Dial(kmsclient.Options{Socket: plugin.Socket, Timeout: longTimeout, Metrics: kmsclient.NewMetrics(registry)}))(t)
	t.Cleanup(func() { _ = client.Close() })
	const (
		name = "realmkeeper_kms_available"
		help = "1 if the KMS plugin responded to the last request, and works according to its status, otherwise 0. Absent before the first request."
	)
	if n, err := testutil.GatherAndCount(registry, name); n != 0 || err != nil {
		t.Errorf("%d metrics before the first request, %v", n, err)
	}
	for health, want := range map[string]int{"ok": 1, "the HSM is locked": 0} {
		plugin.set(func(b *behavior) { b.health = health })
		if id, err := client.Status(t.Context()); want == 1 && (err != nil || id != "1") || want == 0 && !errors.Is(err, keyencryption.ErrUnavailable) {
			t.Errorf("health %q: key ID %q, error %v", health, id, err)
		}
		exposed := fmt.Sprintf("# HELP %[1]s %[3]s\n# TYPE %[1]s gauge\n%[1]s %[2]d\n", name, want, help)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(exposed), name); err != nil {
			t.Errorf("health %q: %v", health, err)
		}
	}
}

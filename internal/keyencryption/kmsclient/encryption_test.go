package kmsclient_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
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

func generate(t *testing.T, algorithm signingkey.Algorithm) signingkey.Key {
	t.Helper()
	key := testkit.Value(signingkey.Generate(algorithm, time.Now(), rand.Reader))(t)
	return key
}

func seal(t *testing.T, client *keyencryption.Encrypter, key *signingkey.Key) signingkey.Key {
	t.Helper()
	sealed := testkit.Value(client.Seal(t.Context(), realm, key))(t)
	return sealed
}

// stored returns the key as it comes out of a record.
func stored(t *testing.T, key signingkey.Key) signingkey.Key {
	t.Helper()
	data := testkit.Value(json.Marshal(key))(t)
	var read signingkey.Key
	testkit.Do(t, json.Unmarshal(data, &read))
	return read
}

func verify(t *testing.T, key *signingkey.Key, public signingkey.PublicKey) {
	t.Helper()
	signature := testkit.Value(key.Signer().Sign(nil, []byte("input")))(t)
	if err := public.Verifier().Verify([]byte("input"), signature); err != nil {
		t.Error(err)
	}
}

func TestSealedKeyCanBeOpened(t *testing.T) {
	client := dial(t, newFakePlugin(t))
	for _, algorithm := range signingkey.Algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			key := generate(t, algorithm)
			sealed := stored(t, seal(t, client, &key))
			if _, err := sealed.Signer().Sign(nil, []byte("input")); !errors.Is(err, signingkey.ErrSealed) {
				t.Errorf("a sealed key signs: %v", err)
			}
			if !sealed.Public().Equal(key.Public()) {
				t.Error("the sealed key has another public key")
			}
			opened := testkit.Value(client.Open(t.Context(), &sealed))(t)
			verify(t, &opened, key.Public())
		})
	}
}

// Nothing that could be part of the private key is in the encoded form.
func TestSealedKeyContainsNoPrivateMember(t *testing.T) {
	client := dial(t, newFakePlugin(t))
	for _, algorithm := range signingkey.Algorithms {
		key := generate(t, algorithm)
		private := testkit.Value(key.PrivateJWK())(t)
		data := testkit.Value(json.Marshal(seal(t, client, &key)))(t)
		var members map[string]any
		testkit.Do(t, json.Unmarshal(private, &members))
		for _, name := range []string{"d", "p", "q", "dp", "dq", "qi"} {
			if value, ok := members[name].(string); ok && bytes.Contains(data, []byte(value)) {
				t.Errorf("%s: the encoded sealed key contains member %q", algorithm, name)
			}
		}
	}
}

func TestOpenRejectsAlteredContent(t *testing.T) {
	client := dial(t, newFakePlugin(t))
	key, other := generate(t, signingkey.ES256), generate(t, signingkey.ES256)
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
	key := generate(t, signingkey.ES256)
	plugin.Corrupt()
	if _, err := client.Seal(t.Context(), realm, &key); !errors.Is(err, keyencryption.ErrRejected) {
		t.Errorf("Seal: got error %v, want ErrRejected", err)
	}
}

func TestErrorsSayWhetherThePluginIsUnavailable(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fakePlugin)
		want   error
	}{
		"stopped":       {(*fakePlugin).Stop, keyencryption.ErrUnavailable},
		"hangs":         {func(p *fakePlugin) { p.Hang() }, keyencryption.ErrUnavailable},
		"not reachable": {func(p *fakePlugin) { p.RefuseAll(codes.Unavailable) }, keyencryption.ErrUnavailable},
		"refuses":       {func(p *fakePlugin) { p.RefuseAll(codes.PermissionDenied) }, keyencryption.ErrRejected},
		"empty key ID":  {func(p *fakePlugin) { p.SetKeyID("") }, keyencryption.ErrRejected},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := newFakePlugin(t)
			timeout := longTimeout
			if name == "hangs" {
				timeout = 100 * time.Millisecond
			}
			client := dialWithTimeout(t, plugin, timeout)
			test.change(plugin)
			key := generate(t, signingkey.ES256)
			if _, err := client.Seal(t.Context(), realm, &key); !errors.Is(err, test.want) {
				t.Errorf("Seal: got error %v, want %v", err, test.want)
			}
			if _, err := client.Status(t.Context()); !errors.Is(err, test.want) {
				t.Errorf("Status: got error %v, want %v", err, test.want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	plugin := newFakePlugin(t)
	client := dial(t, plugin)
	if id, err := client.Status(t.Context()); err != nil || id != "1" {
		t.Errorf("got %q, %v", id, err)
	}
	plugin.SetHealth("the HSM is locked")
	if _, err := client.Status(t.Context()); !errors.Is(err, keyencryption.ErrUnavailable) {
		t.Errorf("unhealthy: got error %v, want ErrUnavailable", err)
	}
}

func TestClientReconnects(t *testing.T) {
	plugin := newFakePlugin(t)
	client := dial(t, plugin)
	plugin.Stop()
	if _, err := client.Status(t.Context()); err == nil {
		t.Fatal("a stopped plugin responds")
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

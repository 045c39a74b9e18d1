package main_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/realmkeeper/realmkeeper/test/framework/kmsplugin"
)

var plaintext = []byte("a data encryption key of 32 byte")

func TestEncryptAndDecrypt(t *testing.T) {
	t.Parallel()
	c := client(t, kmsplugin.Start(t))
	first, second := encrypt(t, c), encrypt(t, c)
	if first.GetKeyId() != status(t, c) {
		t.Errorf("encrypted with key %q, and the current key is %q", first.GetKeyId(), status(t, c))
	}
	if bytes.Equal(first.GetCiphertext(), second.GetCiphertext()) {
		t.Error("two ciphertexts of a plaintext are equal")
	}
	decrypts(t, c, first)
	decrypts(t, c, second)

	altered := bytes.Clone(first.GetCiphertext())
	altered[len(altered)-1] ^= 1
	for name, request := range map[string]*kmsapi.DecryptRequest{
		"altered ciphertext": {Ciphertext: altered, KeyId: first.GetKeyId()},
		"short ciphertext":   {Ciphertext: altered[:20], KeyId: first.GetKeyId()},
		"no ciphertext":      {KeyId: first.GetKeyId()},
		"other key":          {Ciphertext: first.GetCiphertext(), KeyId: "000009-00000000"},
		"no key":             {Ciphertext: first.GetCiphertext()},
	} {
		if response, err := c.Decrypt(t.Context(), request); err == nil {
			t.Errorf("%s: decrypted to %d bytes, want an error", name, len(response.GetPlaintext()))
		}
	}
	decrypts(t, c, first) // failed operations don't break the session
}

// Another process rotates. Running plugins encrypt with the new key and decrypt with both, until the
// old key is destroyed.
func TestRotation(t *testing.T) {
	t.Parallel()
	plugin := kmsplugin.Start(t)
	one, other := client(t, plugin), client(t, plugin.StartAnother(t))
	old := encrypt(t, one)
	id := plugin.Rotate(t)
	for _, c := range []kmsapi.KeyManagementServiceClient{one, other} {
		if got := status(t, c); got != id || got == old.GetKeyId() {
			t.Errorf("the current key is %q after a rotation from %q to %q", got, old.GetKeyId(), id)
		}
		decrypts(t, c, old)
	}
	current := encrypt(t, one)
	decrypts(t, other, current)

	plugin.Prune(t)
	for _, c := range []kmsapi.KeyManagementServiceClient{one, other} {
		decrypts(t, c, current)
		if _, err := c.Decrypt(t.Context(), &kmsapi.DecryptRequest{Ciphertext: old.GetCiphertext(), KeyId: old.GetKeyId()}); err == nil {
			t.Error("a destroyed key still decrypts")
		}
	}
}

func TestKilledPluginRestarts(t *testing.T) {
	t.Parallel()
	plugin := kmsplugin.Start(t)
	before := encrypt(t, client(t, plugin))
	plugin.Kill(t)
	plugin.Restart(t)
	decrypts(t, client(t, plugin), before)
	if strings.Contains(plugin.Log(t), string(plaintext)) {
		t.Error("the log contains a plaintext")
	}
}

// A copy of a token decrypts what the original has encrypted.
func TestSeed(t *testing.T) {
	t.Parallel()
	plugin := kmsplugin.Start(t)
	before := encrypt(t, client(t, plugin))
	decrypts(t, client(t, plugin.StartCopy(t)), before)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	kmsplugin.Start(t) // builds the program
	program, err := filepath.Abs(filepath.Join("..", "..", ".test", "kms"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"usage: kms serve|rotate|prune --token DIR": {},
		"usage: kms serve":                          {"serve", "--token", dir},
		"usage: kms":                                {"rotate", "--token", dir, "--socket", dir + "/s"},
		"usage:":                                    {"unknown", "--token", dir},
		"cannot load SoftHSM; run make softhsm":     {"rotate", "--token", dir, "--module", dir + "/missing.so"},
	} {
		out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("kms %q: %v, %q, want %q", args, err, out, want)
		}
	}
}

func client(t *testing.T, plugin *kmsplugin.Plugin) kmsapi.KeyManagementServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+plugin.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return kmsapi.NewKeyManagementServiceClient(conn)
}

func status(t *testing.T, c kmsapi.KeyManagementServiceClient) (keyID string) {
	t.Helper()
	response, err := c.Status(t.Context(), &kmsapi.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if response.GetVersion() != "v2" || response.GetHealthz() != "ok" {
		t.Errorf("status: %v", response)
	}
	return response.GetKeyId()
}

func encrypt(t *testing.T, c kmsapi.KeyManagementServiceClient) *kmsapi.EncryptResponse {
	t.Helper()
	response, err := c.Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func decrypts(t *testing.T, c kmsapi.KeyManagementServiceClient, e *kmsapi.EncryptResponse) {
	t.Helper()
	response, err := c.Decrypt(t.Context(), &kmsapi.DecryptRequest{
		Ciphertext: e.GetCiphertext(), KeyId: e.GetKeyId(), Annotations: e.GetAnnotations(), Uid: "test",
	})
	if err != nil || !bytes.Equal(response.GetPlaintext(), plaintext) {
		t.Errorf("decrypted to %q: %v", response.GetPlaintext(), err)
	}
}

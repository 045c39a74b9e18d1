package kmsclient_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kms "k8s.io/kms/apis/v2"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

// annotation must be returned with each Decrypt request.
const annotation = "version.fakekms.realmkeeper.dev"

// longTimeout is the timeout of requests in tests that don't need one.
const longTimeout = time.Minute

// fakePlugin is a KMS plugin on a Unix socket. Its keys are in memory, and survive Stop and Start.
type fakePlugin struct {
	kms.UnimplementedKeyManagementServiceServer

	// Socket is the path of the socket.
	Socket string

	t      testing.TB
	server *grpc.Server
	served chan struct{} // closed when the server has closed its listener

	mu    sync.Mutex
	state behavior
}

// behavior is what a fakePlugin does.
type behavior struct {
	keyID   string     // of the key with which it encrypts; Decrypt accepts all previous ones
	health  string     // in responses to Status
	hangs   bool       // requests wait until they are canceled or the plugin stops
	refuse  codes.Code // if not OK, every operation fails with it
	corrupt bool       // Decrypt responds with other bytes than were encrypted
}

// newFakePlugin starts a plugin that stops when the test ends. Its key ID is "1".
func newFakePlugin(t testing.TB) *fakePlugin {
	t.Helper()
	dir := testkit.Value(os.MkdirTemp("", "kms"))(t) //nolint:usetesting // The path of a socket must be short.
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &fakePlugin{Socket: filepath.Join(dir, "kms.sock"), t: t, state: behavior{keyID: "1", health: "ok"}}
	p.Start()
	t.Cleanup(p.Stop)
	return p
}

// Start starts a stopped plugin.
func (p *fakePlugin) Start() {
	p.t.Helper()
	_ = os.Remove(p.Socket)
	listener := testkit.Value((&net.ListenConfig{}).Listen(context.Background(), "unix", p.Socket))(p.t)
	server, served := grpc.NewServer(), make(chan struct{})
	kms.RegisterKeyManagementServiceServer(server, p)
	p.server, p.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
}

// Stop stops the plugin. Requests in progress fail.
func (p *fakePlugin) Stop() {
	p.server.Stop()
	// If the server begins to serve only now, it closes the listener, which deletes the socket. It
	// must not delete that of the next Start.
	<-p.served
}

func (p *fakePlugin) set(change func(*behavior)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.state)
}

// begin returns what the plugin does now, or hangs or refuses a request.
func (p *fakePlugin) begin(ctx context.Context) (behavior, error) {
	p.mu.Lock()
	b := p.state
	p.mu.Unlock()
	if b.hangs {
		<-ctx.Done()
		return b, status.Error(codes.Unavailable, "canceled")
	}
	if b.refuse != codes.OK {
		return b, status.Error(b.refuse, "refused by the test")
	}
	return b, nil
}

// Status returns the health and the key ID.
func (p *fakePlugin) Status(ctx context.Context, _ *kms.StatusRequest) (*kms.StatusResponse, error) {
	b, err := p.begin(ctx)
	return &kms.StatusResponse{Version: "v2", Healthz: b.health, KeyId: b.keyID}, err
}

// Encrypt encrypts with AES-GCM.
func (p *fakePlugin) Encrypt(ctx context.Context, r *kms.EncryptRequest) (*kms.EncryptResponse, error) {
	b, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	aead := aeadOf(b.keyID)
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce)
	return &kms.EncryptResponse{
		Ciphertext: aead.Seal(nonce, nonce, r.GetPlaintext(), nil), KeyId: b.keyID, Annotations: map[string][]byte{annotation: []byte("1")},
	}, nil
}

// Decrypt decrypts a ciphertext of any key ID.
func (p *fakePlugin) Decrypt(ctx context.Context, r *kms.DecryptRequest) (*kms.DecryptResponse, error) {
	b, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	aead := aeadOf(r.GetKeyId())
	if len(r.GetCiphertext()) < aead.NonceSize() || string(r.GetAnnotations()[annotation]) != "1" {
		return nil, status.Error(codes.InvalidArgument, "malformed request")
	}
	plaintext, err := aead.Open(nil, r.GetCiphertext()[:aead.NonceSize()], r.GetCiphertext()[aead.NonceSize():], nil)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "wrong key or altered ciphertext")
	}
	if b.corrupt {
		plaintext = bytes.Repeat([]byte{1}, len(plaintext))
	}
	return &kms.DecryptResponse{Plaintext: plaintext}, nil
}

// aeadOf derives the key of a key ID.
func aeadOf(id string) cipher.AEAD {
	key := sha256.Sum256([]byte("fakekms " + id))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the size is right
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the cipher is AES
	}
	return aead
}

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

	"github.com/realmkeeper/realmkeeper/internal/testkit"
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

	t       testing.TB
	mu      sync.Mutex
	server  *grpc.Server // nil while stopped
	release chan struct{}
	served  chan struct{} // closed when the server has closed its listener

	keyID   string
	health  string
	hangs   bool
	refuse  codes.Code
	corrupt bool
}

// newFakePlugin starts a plugin that stops when the test ends. Its key ID is "1".
func newFakePlugin(t testing.TB) *fakePlugin {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms") //nolint:usetesting // The path of a socket must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &fakePlugin{
		Socket: filepath.Join(dir, "kms.sock"), t: t,
		keyID: "1", health: "ok",
	}
	p.Start()
	t.Cleanup(p.Stop)
	return p
}

// Start starts a stopped plugin.
func (p *fakePlugin) Start() {
	p.t.Helper()
	_ = os.Remove(p.Socket)
	listener := testkit.Value((&net.ListenConfig{}).Listen(context.Background(), "unix", p.Socket))(p.t)
	server := grpc.NewServer()
	kms.RegisterKeyManagementServiceServer(server, p)
	served := make(chan struct{})
	p.mu.Lock()
	p.server, p.release, p.served = server, make(chan struct{}), served
	p.mu.Unlock()
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
}

// Stop stops the plugin. Requests in progress fail.
func (p *fakePlugin) Stop() {
	p.mu.Lock()
	server, served := p.server, p.served
	if server != nil {
		p.server = nil
		close(p.release)
	}
	p.mu.Unlock()
	if server != nil {
		server.Stop()
		// If the server begins to serve only now, it closes the listener, which deletes the socket. It
		// must not delete that of the next Start.
		<-served
	}
}

// SetKeyID changes the key. Decrypt accepts all previous ones.
func (p *fakePlugin) SetKeyID(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keyID = id
}

// SetHealth changes the health in responses to Status from "ok".
func (p *fakePlugin) SetHealth(health string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health = health
}

// Hang makes requests wait until they are canceled or the plugin stops.
func (p *fakePlugin) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = true
}

// RefuseAll makes every operation fail with the given code.
func (p *fakePlugin) RefuseAll(code codes.Code) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = code
}

// Corrupt makes Decrypt respond with other bytes than were encrypted.
func (p *fakePlugin) Corrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.corrupt = true
}

// begin hangs or refuses a request.
func (p *fakePlugin) begin(ctx context.Context) error {
	p.mu.Lock()
	hangs, refuse, release := p.hangs, p.refuse, p.release
	p.mu.Unlock()
	if hangs {
		select {
		case <-ctx.Done():
		case <-release:
		}
		return status.Error(codes.Unavailable, "released")
	}
	if refuse != codes.OK {
		return status.Error(refuse, "refused by the test")
	}
	return nil
}

// Status returns the health and the key ID.
func (p *fakePlugin) Status(ctx context.Context, _ *kms.StatusRequest) (*kms.StatusResponse, error) {
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &kms.StatusResponse{Version: "v2", Healthz: p.health, KeyId: p.keyID}, nil
}

// Encrypt encrypts with AES-GCM.
func (p *fakePlugin) Encrypt(ctx context.Context, r *kms.EncryptRequest) (*kms.EncryptResponse, error) {
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	id := p.keyID
	p.mu.Unlock()
	aead := aeadOf(id)
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce)
	return &kms.EncryptResponse{
		Ciphertext:  aead.Seal(nonce, nonce, r.GetPlaintext(), nil),
		KeyId:       id,
		Annotations: map[string][]byte{annotation: []byte("1")},
	}, nil
}

// Decrypt decrypts a ciphertext of any key ID.
func (p *fakePlugin) Decrypt(ctx context.Context, r *kms.DecryptRequest) (*kms.DecryptResponse, error) {
	if err := p.begin(ctx); err != nil {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.corrupt {
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

// Package fakekms is a KMS plugin for tests. It encrypts with keys in memory.
package fakekms

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
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kms "k8s.io/kms/apis/v2"
)

// annotation must be returned with each Decrypt request.
const annotation = "version.fakekms.realmkeeper.dev"

// Timeout is the timeout of requests in tests that don't need one. It is long, because a request that
// fails on a busy machine is made again, and tests count the requests.
const Timeout = time.Minute

// Plugin is a KMS plugin on a Unix socket. Its keys survive Stop and Start.
type Plugin struct {
	kms.UnimplementedKeyManagementServiceServer

	// Socket is the path of the socket.
	Socket string

	t       testing.TB
	mu      sync.Mutex
	server  *grpc.Server // nil while stopped
	release chan struct{}
	served  chan struct{} // closed when the server has closed its listener

	statusIDs        []string // each response to Status has the next one
	encryptID        string
	health           string
	hangs            bool
	refuse           func(operation string) error
	corrupt          bool
	requests         map[string]int
	concurrent, most int
}

// New starts a plugin that stops when the test ends. Its key ID is "1".
func New(t testing.TB) *Plugin {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms") //nolint:usetesting // The path of a socket must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &Plugin{
		Socket: filepath.Join(dir, "kms.sock"), t: t,
		statusIDs: []string{"1"}, encryptID: "1", health: "ok", requests: map[string]int{},
	}
	p.Start()
	t.Cleanup(p.Stop)
	return p
}

// Start starts a stopped plugin.
func (p *Plugin) Start() {
	p.t.Helper()
	_ = os.Remove(p.Socket)
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", p.Socket)
	if err != nil {
		p.t.Fatal(err)
	}
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
func (p *Plugin) Stop() {
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

// SetKeyID changes the ID in responses to Status, and the key and ID of Encrypt. Decrypt accepts all
// previous keys.
func (p *Plugin) SetKeyID(ofStatus, ofEncrypt string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statusIDs, p.encryptID = []string{ofStatus}, ofEncrypt
}

// Flap makes each response to Status have the next one of the IDs, again and again. The last one is that
// of Encrypt.
func (p *Plugin) Flap(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statusIDs, p.encryptID = ids, ids[len(ids)-1]
}

// SetHealth changes the health in responses to Status from "ok".
func (p *Plugin) SetHealth(health string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health = health
}

// Hang makes requests wait until they are canceled, the plugin stops, or Hang(false) is called before
// them.
func (p *Plugin) Hang(hang bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = hang
}

// Refuse makes operations ("status", "encrypt", "decrypt") fail with the error that refuse returns. A
// nil error, and a nil refuse, allow them.
func (p *Plugin) Refuse(refuse func(operation string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// RefuseAll makes every operation fail with the given code.
func (p *Plugin) RefuseAll(code codes.Code) {
	p.Refuse(func(string) error { return status.Error(code, "refused by the test") })
}

// Corrupt makes Decrypt respond with other bytes than were encrypted.
func (p *Plugin) Corrupt(corrupt bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.corrupt = corrupt
}

// Requests returns the number of requests for an operation.
func (p *Plugin) Requests(operation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[operation]
}

// MostConcurrent returns the largest number of requests that were in progress at the same time.
func (p *Plugin) MostConcurrent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// begin counts a request, and may refuse it. The caller must call the returned function.
func (p *Plugin) begin(ctx context.Context, operation string) (func(), error) {
	p.mu.Lock()
	p.requests[operation]++
	p.concurrent++
	p.most = max(p.most, p.concurrent)
	hangs, refuse, release := p.hangs, p.refuse, p.release
	p.mu.Unlock()
	end := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.concurrent--
	}
	if hangs {
		select {
		case <-ctx.Done():
		case <-release:
		}
		return end, status.Error(codes.Unavailable, "released")
	}
	if refuse != nil {
		if err := refuse(operation); err != nil {
			return end, err
		}
	}
	return end, nil
}

// Status returns the health and the key ID.
func (p *Plugin) Status(ctx context.Context, _ *kms.StatusRequest) (*kms.StatusResponse, error) {
	end, err := p.begin(ctx, "status")
	defer end()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.statusIDs[0]
	p.statusIDs = append(slices.Clone(p.statusIDs[1:]), id)
	return &kms.StatusResponse{Version: "v2", Healthz: p.health, KeyId: id}, nil
}

// Encrypt encrypts with AES-GCM.
func (p *Plugin) Encrypt(ctx context.Context, r *kms.EncryptRequest) (*kms.EncryptResponse, error) {
	end, err := p.begin(ctx, "encrypt")
	defer end()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	id := p.encryptID
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
func (p *Plugin) Decrypt(ctx context.Context, r *kms.DecryptRequest) (*kms.DecryptResponse, error) {
	end, err := p.begin(ctx, "decrypt")
	defer end()
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

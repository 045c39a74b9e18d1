package provided_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/provided"
)

const password = "correct horse battery staple"

// secrets is an API server with Secrets. It counts the reads of each, and blocks reads while gate
// is not nil.
type secrets struct {
	client.Reader

	mu    sync.Mutex
	byKey map[string]*corev1.Secret
	reads []string
	began chan string
	gate  chan struct{}
}

func (s *secrets) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	name, _ := o.FieldSelector.RequiresExactMatch("metadata.name")
	s.mu.Lock()
	s.reads = append(s.reads, o.Namespace+"/"+name)
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		s.began <- o.Namespace + "/" + name
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret := s.byKey[o.Namespace+"/"+name]; secret != nil {
		list.(*corev1.SecretList).Items = []corev1.Secret{*secret}
	}
	return nil
}

func (s *secrets) put(secret *corev1.Secret) *corev1.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[string]*corev1.Secret{}
	}
	s.byKey[secret.Namespace+"/"+secret.Name] = secret
	return secret
}

func newSecret(namespace, name string, version int, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + name), ResourceVersion: strconv.Itoa(version),
			Labels: map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided},
		},
		Data: map[string][]byte{"password": []byte(value)},
	}
}

// countingReader counts how often random bytes are read, which every new hash does once.
type countingReader struct {
	mu sync.Mutex
	n  int
}

func (c *countingReader) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return io.ReadFull(rand.Reader, p)
}

type fixture struct {
	*provided.Hasher

	api    *secrets
	random *countingReader
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func start(t *testing.T) *fixture {
	t.Helper()
	digests, err := provided.NewDigests(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{api: &secrets{}, random: &countingReader{}}
	f.Hasher = provided.NewHasher(digests, f.api, f.random)
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := f.Source().Start(t.Context(), f.queue); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Start(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); f.queue.ShutDown() })
}

// next returns the next client that is reconciled.
func (f *fixture) next() reconcile.Request {
	request, _ := f.queue.Get()
	f.queue.Done(request)
	return request
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func (f *fixture) wantHash(t *testing.T, secret *corev1.Secret, recorded, value string) string {
	t.Helper()
	result, known := f.Lookup(secret, "password", recorded)
	verifier, err := clientsecret.ParseVerifier(result.Hash)
	if !known || result.Err != nil || err != nil || !verifier.Verify(value) {
		t.Fatalf("known: %t, result %+v, want a hash of %q", known, result, value)
	}
	return result.Hash
}

// Each value is hashed once: not again for other clients, new versions of the Secret, or clients in
// whose record its hash is.
func TestEachValueIsHashedOnce(t *testing.T) {
	f := start(t)
	f.run(t)
	secret := f.api.put(newSecret("team", "a", 1, password))
	if _, known := f.Lookup(f.Strip(secret), "password", ""); known {
		t.Fatal("the result is known before it was requested")
	}
	for _, name := range []string{"one", "two"} {
		f.Request(request("team", name), f.Strip(secret), "password", "")
		f.next()
	}
	hash := f.wantHash(t, f.Strip(secret), "", password)
	touched := f.Strip(f.api.put(newSecret("team", "a", 2, password)))
	if again := f.wantHash(t, touched, "", password); again != hash {
		t.Error("a new version with the same value has another hash")
	}
	f.Request(request("team", "one"), touched, "password", hash)
	f.next()
	if again := f.wantHash(t, touched, hash, password); again != hash {
		t.Error("the recorded hash was replaced although the value did not change")
	}
	if f.random.n != 1 {
		t.Errorf("%d hashes, want 1", f.random.n)
	}
	previous, err := clientsecret.HashArgon2id("a password before the change", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f.Request(request("team", "two"), touched, "password", previous.String())
	f.next()
	if again := f.wantHash(t, touched, previous.String(), password); again != hash || f.random.n != 1 {
		t.Errorf("for a client with another recorded hash, the value is hashed again")
	}

	other := f.api.put(newSecret("other", "a", 1, password))
	if _, known := f.Lookup(f.Strip(other), "password", ""); known {
		t.Error("the result for one namespace's Secret is used for another's")
	}
	recorded, err := clientsecret.HashArgon2id(password, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f.Request(request("other", "restarted"), f.Strip(other), "password", recorded.String())
	f.next()
	if got := f.wantHash(t, f.Strip(other), recorded.String(), password); got != recorded.String() || f.random.n != 1 {
		t.Error("a value whose hash is in the record is hashed again")
	}
}

// A result never applies to a different value than the one it was computed from.
func TestNoResultForStaleValue(t *testing.T) {
	f := start(t)
	old := f.Strip(f.api.put(newSecret("team", "a", 1, password)))
	f.Request(request("team", "one"), old, "password", "")
	changed := f.Strip(f.api.put(newSecret("team", "a", 2, password+" 2")))
	f.run(t)
	if got := f.next(); got != request("team", "one") {
		t.Fatalf("%s is reconciled", got)
	}
	f.wantHash(t, changed, "", password+" 2")
	if result, known := f.Lookup(old, "password", ""); known {
		t.Errorf("the replaced value has the result %+v", result)
	}

	large := newSecret("team", "large", 3, password)
	for i := range 100 {
		large.Data[strconv.Itoa(i)] = []byte("value")
	}
	f.Request(request("team", "two"), f.Strip(f.api.put(large)), "password", "")
	f.next()
	f.wantHash(t, f.Strip(large), "", password)
	large = large.DeepCopy()
	large.ResourceVersion = "4"
	if _, known := f.Lookup(f.Strip(large), "password", ""); known {
		t.Error("a new version of a Secret without digests has a result")
	}
}

func TestUnusableValues(t *testing.T) {
	f := start(t)
	f.run(t)
	for value, want := range map[string]error{"short": clientsecret.ErrTooShort, password + "\n": clientsecret.ErrNotUsable} {
		secret := f.Strip(f.api.put(newSecret("team", "a", len(value), value)))
		f.Request(request("team", "one"), secret, "password", "")
		f.next()
		if result, known := f.Lookup(secret, "password", ""); !known || !errors.Is(result.Err, want) {
			t.Errorf("%q: known %t, result %+v, want %v", value, known, result, want)
		}
		if result, known := f.Lookup(secret, "other", ""); !known || !errors.Is(result.Err, provided.ErrNoKey) {
			t.Errorf("without the key: known %t, result %+v", known, result)
		}
	}
}

// A namespace with many jobs delays the job of another namespace by at most one of them, and its
// own jobs run one at a time.
func TestNamespacesTakeTurns(t *testing.T) {
	f := start(t)
	f.api.gate, f.api.began = make(chan struct{}), make(chan string, 100)
	const many = 20
	for i := range many {
		name := fmt.Sprintf("noisy-%d", i)
		f.Request(request("noisy", name), f.Strip(f.api.put(newSecret("noisy", name, 1, fmt.Sprintf("%s %d", password, i)))), "password", "")
	}
	f.Request(request("quiet", "one"), f.Strip(f.api.put(newSecret("quiet", "one", 1, password))), "password", "")
	f.run(t)
	first := []string{<-f.api.began, <-f.api.began} // of concurrency workers, two have something to do
	if slices.Sort(first); first[0] != "noisy/noisy-0" || first[1] != "quiet/one" {
		t.Errorf("%v run at the same time", first)
	}
	close(f.api.gate)
	var order []reconcile.Request
	for range many + 1 {
		order = append(order, f.next())
	}
	if position := slices.Index(order, request("quiet", "one")); position > 2 {
		t.Errorf("the quiet namespace is number %d of %d", position, many+1)
	}
}

// A client waits for one result at most, and not after it has withdrawn.
func TestRequestsAreReplaced(t *testing.T) {
	f := start(t)
	for i := range 1000 {
		f.Request(request("team", "one"), f.Strip(f.api.put(newSecret("team", strconv.Itoa(i), 1, password))), "password", "")
	}
	f.Request(request("team", "two"), f.Strip(f.api.put(newSecret("team", "two", 1, password))), "password", "")
	f.Forget(request("team", "two"))
	f.Request(request("team", "three"), f.Strip(f.api.put(newSecret("team", "three", 1, password))), "password", "")
	f.run(t)
	if got := []reconcile.Request{f.next(), f.next()}; !slices.Equal(got, []reconcile.Request{request("team", "one"), request("team", "three")}) {
		t.Errorf("%v are reconciled", got)
	}
	if want := []string{"team/999", "team/three"}; !slices.Equal(f.api.reads, want) {
		t.Errorf("%v were read, want %v", f.api.reads, want)
	}
}

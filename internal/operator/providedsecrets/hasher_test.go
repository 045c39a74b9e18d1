package providedsecrets_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

const password = "correct horse battery staple"

// secrets is an API server with a Secret in each namespace. Each read sends the namespace to began,
// and then waits for gate, unless these are nil.
type secrets struct {
	client.Reader

	secret *corev1.Secret
	err    error
	began  chan string
	gate   chan struct{}
}

func (s *secrets) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	if s.began != nil {
		s.began <- o.Namespace
		<-s.gate
	}
	if name, _ := o.FieldSelector.RequiresExactMatch("metadata.name"); name != s.secret.Name || s.err != nil {
		return s.err
	}
	if labels := s.secret.Labels; o.LabelSelector.String() == fmt.Sprintf("%s=%s", v1beta1.ClientSecretLabel, labels[v1beta1.ClientSecretLabel]) {
		list.(*corev1.SecretList).Items = []corev1.Secret{*s.secret}
	}
	return nil
}

func newSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "billing", UID: "u", ResourceVersion: "7", Labels: map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided},
		},
		Data: map[string][]byte{"password": []byte(password)},
	}
}

func named(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: "billing"}
}

func TestHasher(t *testing.T) {
	api := &secrets{secret: newSecret()}
	h := providedsecrets.NewHasher(api, rand.Reader)
	version, first, err := h.Hash(t.Context(), named("team"), "password", "")
	verifier, invalid := clientsecret.ParseVerifier(first.Hash)
	if err != nil || first.Err != nil || invalid != nil || !verifier.Verify(password) {
		t.Fatalf("got %+v, %v, %v", first, err, invalid)
	}
	if version.UID != "u" || version.ResourceVersion != "7" || len(version.Data) > 0 {
		t.Errorf("the version is %+v", version)
	}
	if _, again, err := h.Hash(t.Context(), named("team"), "password", first.Hash); again != first || err != nil {
		t.Errorf("a recorded value got another hash: %+v, %v", again, err)
	}
	for key, want := range map[string]error{"other": providedsecrets.ErrNoKey, "short": clientsecret.ErrTooShort, "unusable": clientsecret.ErrNotUsable} {
		api.secret.Data["short"], api.secret.Data["unusable"] = []byte("x"), []byte(password+"\n")
		if _, got, err := h.Hash(t.Context(), named("team"), key, ""); !errors.Is(got.Err, want) || err != nil {
			t.Errorf("%s: got %+v, %v", key, got, err)
		}
	}
	api.err = errors.New("unavailable")
	if version, _, err := h.Hash(t.Context(), named("team"), "password", ""); version != nil || !errors.Is(err, api.err) {
		t.Errorf("got %v, %v, want %v", version, err, api.err)
	}
	api.err, api.secret.Labels = nil, nil
	if version, _, err := h.Hash(t.Context(), named("team"), "password", ""); version != nil || err != nil {
		t.Errorf("a Secret without the label: got %v, %v", version, err)
	}
}

// A tenant with many Secrets has one place, and all tenants together occupy only a part of the workers.
func TestPlaces(t *testing.T) {
	api := &secrets{secret: newSecret(), began: make(chan string), gate: make(chan struct{})}
	h := providedsecrets.NewHasher(api, rand.Reader)
	var running sync.WaitGroup
	start := func(namespace string) {
		running.Go(func() {
			if version, _, err := h.Hash(t.Context(), named(namespace), "password", ""); version == nil || err != nil {
				t.Errorf("%s: got %v, %v", namespace, version, err)
			}
		})
		<-api.began
	}
	rejected := func(namespace string) {
		t.Helper()
		if version, _, err := h.Hash(t.Context(), named(namespace), "password", ""); version != nil || err != nil {
			t.Errorf("%s: got %v, %v, want no place", namespace, version, err)
		}
	}
	start("noisy")
	rejected("noisy")
	for n := range 7 {
		start(fmt.Sprintf("team-%d", n))
	}
	rejected("another")
	api.gate <- struct{}{}
	for range 7 {
		api.gate <- struct{}{}
	}
	running.Wait()
	api.began = nil
	if version, _, err := h.Hash(t.Context(), named("noisy"), "password", ""); version == nil || err != nil {
		t.Errorf("after the others: got %v, %v", version, err)
	}
}

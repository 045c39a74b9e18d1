package servingcert

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Names of the Secrets in the system namespace that contain the pairs.
const (
	AuthoritySecret = "realmkeeper-ca"
	ServingSecret   = "realmkeeper-serving-cert"
)

// Secret returns the pair as a Secret of type kubernetes.io/tls.
func (p Pair) Secret(namespace, name string, labels map[string]string) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(name, namespace).
		WithLabels(labels).
		WithType(corev1.SecretTypeTLS).
		WithData(map[string][]byte{corev1.TLSCertKey: p.Certificate, corev1.TLSPrivateKeyKey: p.Key})
}

// FromSecret returns the pair in a Secret without validating it.
func FromSecret(secret *corev1.Secret) Pair {
	return Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
}

// AuthorityReader reads the certificate of the managed CA.
type AuthorityReader struct {
	system    cache.Cache
	live      client.Reader // bypasses the cache
	namespace string
	// checked is the last Pair that was checked. Every reconcile of an ApiClient reads the CA, and a
	// check takes longer than the rest of most reconciles.
	checked atomic.Pointer[checkedPair]
}

type checkedPair struct {
	Pair

	err error
}

// NewAuthorityReader returns an AuthorityReader. system is a cache of the operator's Secrets in the
// system namespace.
func NewAuthorityReader(system cache.Cache, live client.Reader, namespace string) *AuthorityReader {
	return &AuthorityReader{system: system, live: live, namespace: namespace}
}

// Certificate returns the CA certificate in PEM format, or nil if there is no usable CA.
func (r *AuthorityReader) Certificate(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: r.namespace, Name: AuthoritySecret}
	err := r.system.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, secret) // a CA that a user created lacks the label that the cache selects
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the managed CA: %w", err)
	}
	if pair := r.check(FromSecret(secret)); pair.err == nil {
		return pair.Certificate, nil
	}
	return nil, nil // The token service reconciler reports the error.
}

func (r *AuthorityReader) check(pair Pair) *checkedPair {
	last := r.checked.Load()
	if last == nil || !bytes.Equal(last.Certificate, pair.Certificate) || !bytes.Equal(last.Key, pair.Key) {
		last = &checkedPair{pair, pair.Check()}
		r.checked.Store(last)
	}
	return last
}

// Source returns a source that enqueues the requests returned by toRequests when the CA changes.
func (r *AuthorityReader) Source(toRequests handler.MapFunc) source.SyncingSource {
	return source.Kind(r.system, client.Object(&corev1.Secret{}),
		handler.EnqueueRequestsFromMapFunc(toRequests),
		predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == AuthoritySecret }))
}

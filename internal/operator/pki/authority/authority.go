// Package authority plans the life of the managed CA. The next CA is published beside the current one
// before it signs, so that a renewal interrupts no client that loads the bundle again in the meantime.
package authority

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

// SecretName is the name of the Secret in the system namespace with the CA.
const SecretName = "realmkeeper-ca"

// Data keys of the Secret, in addition to tls.crt and tls.key, the CA that signs. All parts are in
// one Secret, so that each step of a renewal is one write.
const (
	keyNext     = "next.crt"     // the next CA
	keyNextKey  = "next.key"     // its private key
	keyPrevious = "previous.crt" // other certificates that clients trust until they expire
)

// ErrUnusable is returned if the CA or a part of it can't be used. It is never replaced then, because
// clients trust it.
var ErrUnusable = errors.New("unusable CA")

// Authority is the managed CA: the content of the Secret.
type Authority struct {
	// Current signs serving certificates.
	Current *pki.CA
	// Next is the CA that will replace Current; nil if there is none yet. Clients trust it already.
	Next *pki.CA
	// Previous contains other certificates of CAs that clients trust: those of former CAs, whose
	// private keys are not kept, and those that a user added.
	Previous []*x509.Certificate
}

// Bundle returns the certificates that clients must trust. Current is the first, because some clients
// read only one certificate of a file.
func (a *Authority) Bundle() []*x509.Certificate {
	bundle := slices.Clone(a.Current.Chain)
	if a.Next != nil {
		bundle = append(bundle, a.Next.Chain...)
	}
	return append(bundle, a.Previous...)
}

// Chain returns the certificates that servers send after the serving certificate: those of the CA that
// are not self-signed.
func (a *Authority) Chain() []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(a.Current.Chain), func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawSubject, c.RawIssuer)
	})
}

// Decode reads the Secret. It returns nil if the Secret is nil. The error wraps ErrUnusable, and its
// message says what to do.
func Decode(secret *corev1.Secret) (*Authority, error) {
	if secret == nil {
		return nil, nil //nolint:nilnil // There is no CA yet.
	}
	if secret.Type != corev1.SecretTypeTLS {
		return nil, fmt.Errorf("%w: Secret %s has type %q instead of %s; create it again with this type", ErrUnusable, SecretName, secret.Type, corev1.SecretTypeTLS)
	}
	current, err := pki.ParseCA(pki.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]})
	if err != nil {
		return nil, fmt.Errorf("%w: Secret %s (restore it, or delete it to generate a new CA): %w", ErrUnusable, SecretName, err)
	}
	a := &Authority{Current: current}
	if a.Previous, err = pki.Parse(secret.Data[keyPrevious]); err != nil {
		return nil, unusablePart(keyPrevious, err)
	}
	if next := (pki.Pair{Certificate: secret.Data[keyNext], Key: secret.Data[keyNextKey]}); len(next.Certificate)+len(next.Key) > 0 {
		if a.Next, err = pki.ParseCA(next); err != nil {
			return nil, unusablePart(keyNext+" and "+keyNextKey, err)
		}
	}
	return a, nil
}

func unusablePart(keys string, err error) error {
	return fmt.Errorf("%w: %s in Secret %s (correct it, or remove it from the Secret): %w", ErrUnusable, keys, SecretName, err)
}

// Secret returns the Secret with the CA.
func (a *Authority) Secret(namespace string, labels map[string]string) *corev1ac.SecretApplyConfiguration {
	data := map[string][]byte{corev1.TLSCertKey: a.Current.Certificate, corev1.TLSPrivateKeyKey: a.Current.Key}
	if len(a.Previous) > 0 {
		data[keyPrevious] = pki.Encode(a.Previous)
	}
	if a.Next != nil {
		data[keyNext], data[keyNextKey] = a.Next.Certificate, a.Next.Key
	}
	return corev1ac.Secret(SecretName, namespace).WithLabels(labels).WithType(corev1.SecretTypeTLS).WithData(data)
}

// Package authority plans the life of the managed CA. The next CA is published beside the current one
// before it signs, so that a renewal interrupts no client.
package authority

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
)

// SecretName is the name of the Secret in the system namespace with the CA.
const SecretName = "realmkeeper-ca"

// Data keys of the Secret, in addition to tls.crt and tls.key, the CA that signs. All parts are in
// one Secret, so that each step of a renewal is one write.
const (
	keyCross       = "cross.crt"      // tls.crt, signed by the next or the previous CA
	keyNext        = "next.crt"       // the next CA
	keyNextKey     = "next.key"       // its private key
	keyNextCross   = "next-cross.crt" // next.crt, signed by tls.crt
	keyPublishedAt = "next-published-at"
	keyPrevious    = "previous.crt" // certificates of previous CAs that are still valid
)

var (
	// ErrUnusable is returned if the CA can't sign. It is never replaced, because workloads trust it.
	ErrUnusable = errors.New("unusable CA")
	// ErrUnreadable is returned if the next CA or the previous ones can't be read. The CA can sign.
	ErrUnreadable = errors.New("unreadable part of the CA")
)

// Authority is the managed CA: the content of the Secret.
type Authority struct {
	// Current signs serving certificates.
	Current *certificate.CA
	// Cross contains the certificate of Current signed by the next CA, or by the previous one. Servers
	// send it, so that clients that trust only the other CA accept the serving certificate.
	Cross []*x509.Certificate
	// Next is the CA that will replace Current; nil if there is none yet. Clients trust it already.
	Next *certificate.CA
	// NextCross contains the certificate of Next signed by Current.
	NextCross []*x509.Certificate
	// PublishedAt is the time at which Next was published.
	PublishedAt time.Time
	// Previous contains certificates of CAs that no longer sign, but which clients still trust. The
	// private keys of previous CAs are not kept.
	Previous []*x509.Certificate
}

// Bundle returns the certificates that clients must trust. Their order doesn't depend on which CA
// signs, so that a change of the CA that signs doesn't change the bundle.
func (a *Authority) Bundle() []*x509.Certificate {
	return sorted(append(a.signing(), a.Previous...))
}

// signing returns the certificates of the CA that signs and of the next one.
func (a *Authority) signing() []*x509.Certificate {
	list := slices.Clone(a.Current.Chain)
	if a.Next != nil {
		list = append(list, a.Next.Chain...)
	}
	return list
}

// IsAbrupt reports whether clients that trust only the current CA fail when the next one signs, because
// the current CA may not sign the certificate of another CA.
func (a *Authority) IsAbrupt() bool { return a.Next != nil && len(a.NextCross) == 0 }

// Chain returns the certificates that servers send after the serving certificate.
func (a *Authority) Chain() []*x509.Certificate {
	var chain []*x509.Certificate
	for _, c := range a.Current.Chain {
		if !bytes.Equal(c.RawSubject, c.RawIssuer) {
			chain = append(chain, c)
		}
	}
	return append(chain, a.Cross...)
}

// sorted returns the certificates without duplicates, oldest first.
func sorted(certificates []*x509.Certificate) []*x509.Certificate {
	slices.SortFunc(certificates, func(a, b *x509.Certificate) int {
		return cmp.Or(a.NotBefore.Compare(b.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
	return slices.CompactFunc(certificates, (*x509.Certificate).Equal)
}

// Decode reads the Secret. It returns nil if the Secret is nil. An error wraps ErrUnusable, or
// ErrUnreadable together with the parts that can be read. The message says what to do. Make generates
// the other parts, cross-signed certificates and a time, again if they can't be read.
func Decode(secret *corev1.Secret) (*Authority, error) {
	if secret == nil {
		return nil, nil //nolint:nilnil // There is no CA yet.
	}
	if secret.Type != corev1.SecretTypeTLS {
		return nil, fmt.Errorf("%w: Secret %s has type %q instead of %s; create it again with this type", ErrUnusable, SecretName, secret.Type, corev1.SecretTypeTLS)
	}
	current, err := certificate.ParseCA(certificate.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]})
	if err != nil {
		return nil, fmt.Errorf("%w: Secret %s (restore it, or delete it to generate a new CA): %w", ErrUnusable, SecretName, err)
	}
	a := &Authority{Current: current}
	var failed []error
	unreadable := func(keys string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("%w: %s in Secret %s (correct it, or remove it from the Secret): %w", ErrUnreadable, keys, SecretName, err))
		}
	}
	a.Previous, err = certificate.Parse(secret.Data[keyPrevious])
	unreadable(keyPrevious, err)
	a.Cross, _ = certificate.Parse(secret.Data[keyCross])
	a.NextCross, _ = certificate.Parse(secret.Data[keyNextCross])
	a.PublishedAt, _ = time.Parse(time.RFC3339, string(secret.Data[keyPublishedAt]))
	if next := (certificate.Pair{Certificate: secret.Data[keyNext], Key: secret.Data[keyNextKey]}); len(next.Certificate)+len(next.Key) > 0 {
		a.Next, err = certificate.ParseCA(next)
		unreadable(keyNext+" and "+keyNextKey, err)
	}
	return a, errors.Join(failed...)
}

// Secret returns the Secret with the CA.
func (a *Authority) Secret(namespace string, labels map[string]string) *corev1ac.SecretApplyConfiguration {
	data := map[string][]byte{corev1.TLSCertKey: a.Current.Certificate, corev1.TLSPrivateKeyKey: a.Current.Key}
	list := func(key string, certificates []*x509.Certificate) {
		if len(certificates) > 0 {
			data[key] = certificate.Encode(certificates)
		}
	}
	list(keyCross, a.Cross)
	list(keyPrevious, a.Previous)
	if a.Next != nil {
		data[keyNext], data[keyNextKey] = a.Next.Certificate, a.Next.Key
		data[keyPublishedAt] = []byte(a.PublishedAt.UTC().Format(time.RFC3339))
		list(keyNextCross, a.NextCross)
	}
	return corev1ac.Secret(SecretName, namespace).WithLabels(labels).WithType(corev1.SecretTypeTLS).WithData(data)
}

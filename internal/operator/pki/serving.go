package pki

import (
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// ServingSecretName is the name of the Secret in the system namespace with the serving certificate.
const ServingSecretName = "realmkeeper-serving-cert"

// MaxServingLifetime is the lifetime of a serving certificate, unless the CA's is short. The certificate
// is renewed when a third of its lifetime is left.
const MaxServingLifetime = 90 * 24 * time.Hour

// RenewAt returns the time at which a serving certificate must be renewed. It returns now if the
// certificate is invalid, wasn't signed by the CA, or doesn't cover all hosts.
func RenewAt(ca *CA, serving Pair, hosts []string, now time.Time) time.Time {
	leaf, err := serving.Parse()
	if err != nil || !ca.Signed(leaf) {
		return now
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	for _, host := range hosts {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
			return now
		}
	}
	if !leaf.NotAfter.Before(ca.Leaf.NotAfter) {
		return leaf.NotAfter // A new certificate would expire at the same time.
	}
	return leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore.Add(Backdate)) / 3)
}

// WithChain returns the pair with the certificates that a server sends to clients after its own.
func WithChain(serving Pair, chain []*x509.Certificate) Pair {
	own, _ := Parse(serving.Certificate)
	return Pair{Certificate: Encode(slices.Concat(own[:min(1, len(own))], chain)), Key: serving.Key}
}

// HasChain reports whether the certificates that a server sends after its own are those of the chain.
// Servers notice a change of the chain only if their own certificate also changes, so a certificate with
// another chain must be issued again.
func HasChain(serving Pair, chain []*x509.Certificate) bool {
	sent, err := Parse(serving.Certificate)
	return err == nil && len(sent) > 0 && slices.EqualFunc(sent[1:], chain, (*x509.Certificate).Equal)
}

// ServingSecret returns the Secret that the token servers mount.
func ServingSecret(namespace string, serving Pair, labels map[string]string) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(ServingSecretName, namespace).
		WithLabels(labels).
		WithType(corev1.SecretTypeTLS).
		WithData(map[string][]byte{corev1.TLSCertKey: serving.Certificate, corev1.TLSPrivateKeyKey: serving.Key})
}

// ServingPair returns the pair in the Secret without validating it. The Secret can be nil.
func ServingPair(secret *corev1.Secret) Pair {
	if secret == nil {
		return Pair{}
	}
	return Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
}

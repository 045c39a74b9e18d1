package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"time"
)

// authority is a certificate authority. Its key is never stored.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := certificate("realmkeeper control plane")
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// issueServing returns the serving certificate and key of the API server, PEM-encoded.
func (a *authority) issueServing(hosts []string, addresses []net.IP) (cert, key []byte, err error) {
	template := certificate(apiServerName)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = addresses
	template.DNSNames = hosts
	return a.issue(template)
}

// issueKubeletClient returns the client certificate and key of the API server for kubelets.
// Kubelets ask the API server whether this certificate's user has access, so the user must be an
// administrator.
func (a *authority) issueKubeletClient() (cert, key []byte, err error) {
	template := certificate("kube-apiserver-kubelet-client")
	template.Subject.Organization = []string{"system:masters"}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	signer, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, signer.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	if key, err = encodeKey(signer); err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, nil
}

func certificate(commonName string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: commonName},
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.AddDate(1, 0, 0),
	}
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// encodeKey uses SEC 1, the only format in which Kubernetes reads service account keys.
func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

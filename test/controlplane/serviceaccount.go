package controlplane

import (
	"fmt"
	"os"
)

// issuer is the issuer of service account tokens. Most clusters that kubeadm creates have a similar
// one, so it doesn't identify a cluster.
const issuer = "https://kubernetes.default.svc"

// NewServiceAccountKey generates a private key for SetServiceAccountKey.
func NewServiceAccountKey() ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("generate a service account key: %w", err)
	}
	return encodeKey(key)
}

// ServiceAccountKey returns the private key with which the API server signs service account tokens.
func (c *ControlPlane) ServiceAccountKey() ([]byte, error) {
	return os.ReadFile(c.file(serviceAccountKeyFile))
}

// SetServiceAccountKey replaces the private key of service account tokens. The API server reads it
// when it starts, so the caller must restart it.
func (c *ControlPlane) SetServiceAccountKey(key []byte) error {
	return os.WriteFile(c.file(serviceAccountKeyFile), key, 0o600)
}

// SetServiceAccountIssuers sets the issuers that the API server accepts in addition to the default one. The first
// one issues tokens. The API server reads them when it starts, so the caller must restart it.
func (c *ControlPlane) SetServiceAccountIssuers(issuers ...string) { c.issuers = issuers }

// serviceAccounts returns the API server's arguments for service account tokens.
func (c *ControlPlane) serviceAccounts() []string {
	var issuers []string
	for _, accepted := range append(c.issuers, issuer) {
		issuers = append(issuers, "--service-account-issuer="+accepted)
	}
	return append(issuers,
		"--service-account-key-file="+c.file(serviceAccountKeyFile),
		"--service-account-signing-key-file="+c.file(serviceAccountKeyFile),
	)
}

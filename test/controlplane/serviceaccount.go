package controlplane

import (
	"bytes"
	"fmt"
	"os"
)

// defaultIssuer is the issuer of service account tokens unless Options name another one. Most
// clusters that kubeadm creates have a similar one, so it doesn't identify a cluster.
const defaultIssuer = "https://kubernetes.default.svc"

// NewServiceAccountKey generates a private key for SetServiceAccountKeys.
func NewServiceAccountKey() ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("generate a service account key: %w", err)
	}
	return encodeKey(key)
}

// SetServiceAccountKeys sets the private keys of service account tokens. The API server signs
// tokens with the first one, and accepts and publishes all of them. It reads them when it starts,
// so the caller must restart it.
func (c *ControlPlane) SetServiceAccountKeys(keys ...[]byte) error {
	for name, content := range serviceAccountFiles(keys) {
		if err := os.WriteFile(c.file(name), content, 0o600); err != nil {
			return fmt.Errorf("write the service account keys: %w", err)
		}
	}
	return nil
}

// serviceAccountFiles returns the files of the API server with these keys, by name.
func serviceAccountFiles(keys [][]byte) map[string][]byte {
	return map[string][]byte{serviceAccountKeyFile: keys[0], serviceAccountKeysFile: bytes.Join(keys, nil)}
}

// serviceAccounts returns the API server's arguments for service account tokens.
func (c *ControlPlane) serviceAccounts() []string {
	issuer := c.options.ServiceAccountIssuer
	if issuer == "" {
		issuer = defaultIssuer
	}
	return []string{
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + c.file(serviceAccountKeysFile),
		"--service-account-signing-key-file=" + c.file(serviceAccountKeyFile),
	}
}

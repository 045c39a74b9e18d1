package localissuer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// credentialFiles writes credentials Secrets to files as a Pod mounts them: one directory for each
// client. It removes only files that it has written.
type credentialFiles struct {
	dir     string
	written map[string][]byte // by path
}

// writeCredentials writes the certificate authority and all credentials Secrets, and removes the
// files of clients that no longer have a credentials Secret.
func (i *issuer) writeCredentials() error {
	ca, err := i.objects.authority()
	if err != nil {
		return err
	}
	wanted := map[string][]byte{filepath.Join(i.CredentialsDir, v1beta1.SecretKeyCACrt): ca.Certificate}
	for _, c := range i.objects.clients() {
		secret := i.objects.secret(c.Namespace, c.Status.SecretName)
		if secret == nil || !metav1.IsControlledBy(secret, c) {
			continue
		}
		for name, value := range secret.Data {
			wanted[filepath.Join(clientDir(i.CredentialsDir, c), name)] = value
		}
	}
	return i.credentials.update(wanted)
}

func clientDir(dir string, c *v1beta1.ApiClient) string {
	return filepath.Join(dir, c.Namespace, c.Name)
}

func (f *credentialFiles) update(wanted map[string][]byte) error {
	for path, content := range wanted {
		if before, ok := f.written[path]; ok && bytes.Equal(before, content) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("writing --credentials-dir: %w", err)
		}
		if err := replaceFile(path, content); err != nil {
			return fmt.Errorf("writing --credentials-dir: %w", err)
		}
		f.written[path] = content
	}
	for path := range f.written {
		if _, ok := wanted[path]; ok {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing credentials: %w", err)
		}
		delete(f.written, path)
		// Directories with other files stay.
		for dir := filepath.Dir(path); dir != f.dir && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
		}
	}
	return nil
}

package install

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mountInterval is the delay with which MountServingCertificate updates files.
const mountInterval = 100 * time.Millisecond

// certificateFiles returns the paths of the files with a server's certificate and key.
func (i *Installation) certificateFiles(s *TokenServer) (cert, key string) {
	return filepath.Join(i.dir, s.Name+".crt"), filepath.Join(i.dir, s.Name+".key")
}

// MountServingCertificate updates the files with the serving certificate of all running token servers
// when the Secret changes, as the kubelet does, until the test ends.
func (i *Installation) MountServingCertificate(t testing.TB) {
	t.Helper()
	servers := i.Servers()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		var last []byte
		for ticker := time.NewTicker(mountInterval); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			secret := &corev1.Secret{}
			err := i.Env.Client.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: i.tls}, secret)
			if err != nil || bytes.Equal(secret.Data[corev1.TLSCertKey], last) {
				continue
			}
			last = secret.Data[corev1.TLSCertKey]
			for _, s := range servers {
				cert, key := i.certificateFiles(s)
				replaceFile(t, key, secret.Data[corev1.TLSPrivateKeyKey])
				replaceFile(t, cert, last)
			}
		}
	}()
}

// replaceFile changes a file in place, unlike the kubelet: servers notice that immediately, and other
// changes sometimes only after ten seconds.
func replaceFile(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Error(err)
	}
}

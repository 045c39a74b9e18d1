package httpserver_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
)

// The kubelet replaces all files of a volume at once: the directory ..data is a symbolic link. A certificate
// that can't be read leaves the previous one in use.
func TestCertificateIsReloaded(t *testing.T) {
	first, second := newCertificate(t), newCertificate(t)
	volume := t.TempDir()
	for _, name := range []string{"tls.crt", "tls.key"} {
		testkit.Do(t, os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)))
	}
	publish(t, volume, first, first)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		logs := &syncLog{}
		get := testkit.Value(httpserver.WatchCertificate(ctx, filepath.Join(volume, "tls.crt"), filepath.Join(volume, "tls.key"), slog.New(slog.NewTextHandler(logs, nil))))(t)
		expect := func(when string, want pki.Pair, wantUpdated, wantFailed int) {
			t.Helper()
			synctest.Wait()
			wanted := testkit.Value(pki.Parse(want.Certificate))(t)[0]
			testkit.Diff(t, when, wanted.SerialNumber.String(), testkit.Value(get(nil))(t).Leaf.SerialNumber.String())
			testkit.Diff(t, "logged updates "+when, wantUpdated, logs.count("Updated current TLS certificate"))
			testkit.Diff(t, "logged failures "+when, wantFailed, logs.count("Failed to read the serving certificate"))
		}
		time.Sleep(time.Minute)
		expect("unchanged", first, 1, 0)
		publish(t, volume, first, second)
		time.Sleep(15 * time.Second)
		expect("with the key of another certificate", first, 1, 2)
		testkit.Do(t, os.Remove(filepath.Join(volume, "..data")))
		time.Sleep(10 * time.Second)
		expect("without files", first, 1, 3)
		publish(t, volume, second, second)
		time.Sleep(10 * time.Second)
		expect("after a failure", second, 2, 3)
		publish(t, volume, first, first)
		time.Sleep(time.Second)
		expect("after a change", first, 3, 3)
	})
}

// syncLog is a log that is written and read at the same time.
type syncLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *syncLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *syncLog) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), message)
}

// publish writes a certificate and a key to a volume as the kubelet does.
func publish(t *testing.T, volume string, cert, key pki.Pair) {
	t.Helper()
	dir := t.TempDir()
	testkit.Do(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert.Certificate, 0o600))
	testkit.Do(t, os.WriteFile(filepath.Join(dir, "tls.key"), key.Key, 0o600))
	link := filepath.Join(volume, "..data_tmp")
	testkit.Do(t, os.Symlink(dir, link))
	testkit.Do(t, os.Rename(link, filepath.Join(volume, "..data")))
}

func newCertificate(t *testing.T) pki.Pair {
	t.Helper()
	return testkit.Value(pki.NewCA(nil, 24*time.Hour, time.Now(), rand.Reader))(t).Pair
}

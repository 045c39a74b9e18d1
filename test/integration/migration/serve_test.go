package migration_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The local issuer serves the directory as it is, so users can try it before they commit it.
func TestServe(t *testing.T) {
	cluster := env.Start(t)
	dir := exportDir(t, "", "hydra")
	out, credentials := filepath.Join(t.TempDir(), "acme"), t.TempDir()
	importClients(t, cluster, "hydra", filepath.Join(dir, "clients-1.json"), filepath.Join(dir, "clients-2.json"),
		"--hashes", filepath.Join(dir, "hashes.txt"), "--realm", "acme", "-n", "acme-apps", "--output-dir", out, "--report", "json")

	ctx, stop := context.WithCancel(t.Context())
	serve := exec.CommandContext(ctx, install.Binary(t, cluster, "kubectl-realmkeeper"), "serve", "-f", out, "--port", "0", "--credentials-dir", credentials)
	stdout, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	serve.Stderr = os.Stderr
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = serve.Wait() // it was killed
	})
	endpoint := ""
	for lines := bufio.NewScanner(stdout); endpoint == "" && lines.Scan(); {
		if _, after, found := strings.Cut(lines.Text(), "Token endpoint:"); found {
			endpoint = strings.TrimSpace(after)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	authority, err := os.ReadFile(filepath.Join(credentials, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	httpClient := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(httpClient.CloseIdleConnections)
	for id, secret := range secretsOf(t, dir) {
		if id != "fixture-pbkdf2-0005" && id != "fixture-bcrypt-0005" {
			continue
		}
		for _, request := range []request{tokenEncoded, tokenRaw} {
			if _, err := awaitResult(func() error { return request(t.Context(), nil, httpClient, endpoint, id, secret) }); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
}

//go:build e2e && rehearse

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// The login to the registries.
const (
	registryUser     = "user"
	registryPassword = "password"
	htpasswd         = "$2a$04$ATocda2InPraKGIoR6eFDuuGKHPbGgU3RqYbIXYuppdJDEwR5Qrq2" // bcrypt
)

const registryConfig = `version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: %q}}
http: {addr: %q, tls: {certificate: %q, key: %q}}
auth: {htpasswd: {realm: rehearsal, path: %q}}
`

// registry is an OCI registry on this machine with TLS and a login. At the end of the test, it is stopped.
type registry struct {
	address, storage string

	command process.Command
	process *process.Process
}

// startRegistry starts a registry. The files ca.crt and ca.key in dir are its certificate and key.
func startRegistry(t *testing.T, dir, name, address string) *registry {
	t.Helper()
	r := &registry{address: address, storage: filepath.Join(dir, name)}
	config, passwords := r.storage+".yaml", filepath.Join(dir, "htpasswd")
	write(t, passwords, registryUser+":"+htpasswd+"\n")
	write(t, config, fmt.Sprintf(registryConfig, r.storage, r.address, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"), passwords))
	r.command = process.Command{
		Name: name, Path: tool("registry"), Args: []string{"serve", config}, Dir: dir, Env: []string{"OTEL_TRACES_EXPORTER=none"},
	}
	r.start(t)
	t.Cleanup(func() { r.stop(t) })
	run(t, tool("crane"), "auth", "login", r.address, "--username", registryUser, "--password", registryPassword)
	return r
}

// start starts the registry, and waits until it accepts connections.
func (r *registry) start(t *testing.T) {
	t.Helper()
	var err error
	if r.process, err = process.Start(r.command); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err = r.process.Await(ctx, func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *registry) stop(t *testing.T) {
	t.Helper()
	if err := r.process.Kill(); err != nil {
		t.Error(err)
	}
}

// trust lets containerd in the node trust the certificate until the end of the test. Pods log in with a Secret.
func (r *registry) trust(t *testing.T) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "config", "registries", r.address)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	write(t, filepath.Join(dir, "ca.crt"), read(t, os.Getenv("SSL_CERT_FILE")))
	write(t, filepath.Join(dir, "hosts.toml"), fmt.Sprintf("server = \"https://%s\"\nca = \"/run/realmkeeper/config/registries/%[1]s/ca.crt\"\n", r.address))
}

// removeImages removes the images of the registry from the node, under all their names.
func (r *registry) removeImages(t *testing.T) {
	t.Helper()
	images := []string{"exec", "ctr", "--namespace", "k8s.io", "images"}
	names := map[string][]string{} // by digest
	for line := range strings.Lines(node(t, append(images, "ls")...)) {
		fields := strings.Fields(line) // name, type, digest, ...
		names[fields[2]] = append(names[fields[2]], fields[0])
	}
	for _, same := range names {
		if strings.HasPrefix(strings.Join(same, " "), r.address+"/") { // The other names are digests.
			node(t, slices.Concat(images, []string{"rm", "--sync"}, same)...)
		}
	}
}

// blob returns the path of a blob with the given digest.
func (r *registry) blob(digest string) string {
	hash := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(r.storage, "docker", "registry", "v2", "blobs", "sha256", hash[:2], hash, "data")
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

//go:build e2e && rehearse

package e2e_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"github.com/realmkeeper/realmkeeper/test/framework/console"
)

// rehearsal is what a user has, who trusts two registries and is logged in to them.
type rehearsal struct {
	registry, mirror *registry
	// path is the path of the releases in the registry.
	path string
	// downloads has the files of the current release and the public key.
	downloads string
	// digests has the digest of the image of each version.
	digests map[string]string
	// attempts counts the upgrades.
	attempts int
}

// TestRehearsal publishes two releases of test/e2e/releases.sh into a registry, verifies the current one, copies it
// into a second registry, and installs, upgrades, rolls back, and uninstalls it, with the commands in the
// documentation. Meanwhile, it breaks what they depend on. They must fail with a message that the documentation
// explains.
func TestRehearsal(t *testing.T) {
	needsNode(t)
	removeReusable(t)
	r := prepareRehearsal(t)
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"publish", r.publish},
		{"verify", r.verify},
		{"faults", r.testFaults},
		{"mirror", r.copy},
		{"upgrade, roll back, reinstall", func(t *testing.T) {
			t.Cleanup(func() { finish(t) })
			testUpgradeRollbackReinstall(t, lifecycle{
				installPrevious: r.installPrevious, upgrade: r.upgrade, rollback: r.rollback, uninstall: r.uninstall, install: r.installFromMirror,
			})
		}},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

func prepareRehearsal(t *testing.T) *rehearsal {
	t.Helper()
	dir := t.TempDir()
	address, path, _ := strings.Cut(os.Getenv("E2E_REGISTRY"), "/")
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "ca.crt"), string(certificate))
	write(t, filepath.Join(dir, "ca.key"), string(key))
	for name, value := range map[string]string{
		"PATH": os.Getenv("E2E_BIN") + ":" + os.Getenv("PATH"), "SSL_CERT_FILE": filepath.Join(dir, "ca.crt"), "DOCKER_CONFIG": dir,
		"HELM_CONFIG_HOME": filepath.Join(dir, "helm"), "HELM_CACHE_HOME": filepath.Join(dir, "helm"),
	} {
		t.Setenv(name, value)
	}
	r := &rehearsal{path: path, downloads: filepath.Join(dir, "downloads"), digests: map[string]string{}}
	r.registry, r.mirror = startRegistry(t, dir, "registry", address), startRegistry(t, dir, "mirror", net.JoinHostPort(host, "5444"))
	for _, registry := range []*registry{r.registry, r.mirror} {
		registry.trust(t)
		registry.removeImages(t)
	}
	if err := os.CopyFS(r.downloads, os.DirFS(filepath.Join(built(currentVersion), "dist", "release"))); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"cosign.pub", "another.pub"} {
		write(t, filepath.Join(r.downloads, key), read(t, built(key)))
	}
	return r
}

// built returns the path of what test/e2e/releases.sh has created: a key, or the checkout of a version.
func built(name string) string {
	return filepath.Join(filepath.Dir(os.Getenv("E2E_BIN")), "releases", name)
}

// do runs the blocks of a page in a directory, for a version.
func (r *rehearsal) do(t *testing.T, directory, version string, blocks []console.Block) {
	t.Helper()
	shell := console.NewShell(t, directory)
	shell.Rewrite = r.rewrite(version)
	shell.Run(t, blocks...)
}

// rewrite returns a function that replaces the placeholders in a command.
func (r *rehearsal) rewrite(version string) func(command string) string {
	host := r.registry.address
	return strings.NewReplacer(
		"ghcr.io/realmkeeper", host+"/"+r.path, "registry.example.com/team", host+"/"+r.path, "registry.example.com", host,
		"registry.internal", r.mirror.address, "0.1.0", version, "0.2.0", version, "REVISION", "1",
		"sha256:DIGEST", r.digests[version]+",imagePullSecrets[0].name=registry", "$HOME/.docker", "$DOCKER_CONFIG",
	).Replace
}

func (r *rehearsal) publish(t *testing.T) {
	for _, version := range []string{previousVersion, currentVersion} {
		r.do(t, built(version), version, console.Blocks(t, "docs/operations/install.md", "make publish"))
		r.digests[version] = strings.TrimSpace(run(t, tool("crane"), "digest", r.registry.address+"/"+r.path+"/realmkeeper:v"+version))
	}
}

func (r *rehearsal) verify(t *testing.T) {
	r.do(t, r.downloads, currentVersion, console.Blocks(t, "docs/release.md", "cosign verify-blob", "helm pull"))
	for file, want := range map[string]string{
		"SHA256SUMS":   "  sbom.cdx.json\n",
		"install.yaml": "/realmkeeper:v" + currentVersion + "@" + r.digests[currentVersion] + "\n",
	} {
		if !strings.Contains(read(t, filepath.Join(r.downloads, file)), want) {
			t.Errorf("%s does not contain %q", file, want)
		}
	}
}

// copy copies the release into the mirror.
func (r *rehearsal) copy(t *testing.T) {
	r.do(t, r.downloads, currentVersion, console.Blocks(t, "docs/operations/install.md", "crane copy"))
}

func (r *rehearsal) installPrevious(t *testing.T) {
	r.use(r.registry.address + "/" + r.path)
	r.do(t, built(previousVersion), previousVersion, console.Blocks(t, "docs/operations/install.md",
		"kubectl create namespace realmkeeper-system", "create secret docker-registry", "helm install realmkeeper oci://registry.example.com"))
	awaitTokenServers(t, previousVersion)
	// What helm test has created is deleted in the background.
	awaitNoObjects(t)
	kubectl(t, "wait", "secret/realmkeeper-helm-test", "--namespace", systemNamespace, "--for=delete", "--timeout=1m")
}

// use makes image return what the chart runs if it is installed from the given path.
func (r *rehearsal) use(path string) {
	image = func(version string) string { return path + "/realmkeeper:v" + version + "@" + r.digests[version] }
}

func (r *rehearsal) upgrade(t *testing.T) {
	if r.attempts++; r.attempts == 1 {
		r.testFailedUpgrade(t)
	}
	r.do(t, built(currentVersion), currentVersion, console.Blocks(t, "docs/operations/upgrade.md", "helm upgrade", "kubectl wait instance"))
}

func (r *rehearsal) rollback(t *testing.T) {
	r.do(t, root, previousVersion, console.Blocks(t, "docs/operations/upgrade.md", "helm rollback"))
}

func (r *rehearsal) uninstall(t *testing.T) {
	r.do(t, root, currentVersion, console.Blocks(t, "docs/operations/uninstall.md", "helm uninstall"))
}

// installFromMirror installs the release while its registry is unavailable, on a node without its image.
func (r *rehearsal) installFromMirror(t *testing.T) {
	r.registry.removeImages(t)
	r.registry.stop(t)
	r.use(r.mirror.address)
	r.do(t, built(currentVersion), currentVersion, console.Blocks(t, "docs/operations/install.md", "helm install realmkeeper oci://registry.internal"))
}

const (
	releasePage = "docs/release.md"
	installPage = "docs/operations/install.md"
	upgradePage = "docs/operations/upgrade.md"
)

// testFaults breaks what the user relies on before the installation.
func (r *rehearsal) testFaults(t *testing.T) {
	const (
		attestation = "cosign verify-blob-attestation --bundle provenance.sigstore.json --insecure-ignore-tlog --type slsaprovenance1 "
		sums        = "sha256sum --check --ignore-missing SHA256SUMS"
	)
	r.testFault(t, releasePage, "invalid signature when validating ASN.1 encoded signature",
		"cosign verify-blob --key another.pub --bundle SHA256SUMS.sigstore.json --insecure-ignore-tlog SHA256SUMS")
	r.testFault(t, releasePage, "accepted signatures do not match threshold", attestation+"--key another.pub crds.yaml")
	r.testFault(t, releasePage, "FAILED", "echo >>crds.yaml && "+sums)
	r.testFault(t, releasePage, "provided artifact digests do not match digests in statement", attestation+"--key cosign.pub crds.yaml")
	write(t, filepath.Join(r.downloads, "crds.yaml"), read(t, filepath.Join(built(currentVersion), "dist", "release", "crds.yaml")))
	// The mirror has a chart of another version under this name.
	r.testFault(t, releasePage, "FAILED", `mkdir -p pulled && cp SHA256SUMS pulled && cd pulled &&
		helm package --version 0.1.0 `+built(previousVersion)+`/charts/realmkeeper && helm push realmkeeper-0.1.0.tgz oci://registry.internal/charts &&
		helm pull oci://registry.internal/charts/realmkeeper --version 0.1.0 && `+sums)

	r.testFault(t, installPage, "not found", "helm pull oci://registry.example.com/team/charts/realmkeeper --version 9.9.9")
	pull := "helm pull oci://registry.example.com/team/charts/realmkeeper --version 0.1.0"
	r.testFault(t, installPage, "basic credential not found", "DOCKER_CONFIG=/dev/null "+pull)
	r.testFault(t, installPage, "certificate signed by unknown authority", "SSL_CERT_FILE=/dev/null "+pull)
	r.mirror.stop(t)
	r.testFault(t, installPage, "connection refused", "crane copy registry.example.com/team/realmkeeper:v0.1.0 registry.internal/realmkeeper:v0.1.0")
	r.mirror.start(t)
}

// testFault requires that a command fails with a message that a page explains.
func (r *rehearsal) testFault(t *testing.T, page, want, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", r.rewrite(currentVersion)(command))
	shell.Dir = r.downloads
	out, err := shell.CombinedOutput()
	t.Logf("$ %s\n%s(%v)", command, out, err)
	if err == nil {
		t.Errorf("%s succeeds", command)
	}
	requireExplained(t, page, want, string(out))
}

// requireExplained requires that a message contains a text that a page explains.
func requireExplained(t *testing.T, page, want, message string) {
	t.Helper()
	if !strings.Contains(message, want) {
		t.Errorf("got %q, want it to contain %q", message, want)
	}
	if !strings.Contains(read(t, filepath.Join(root, page)), "`"+want+"`") {
		t.Errorf("%s does not explain %q", page, want)
	}
}

// testFailedUpgrade upgrades to an image with a changed layer, and starts Pods whose image can't be pulled.
func (r *rehearsal) testFailedUpgrade(t *testing.T) {
	t.Helper()
	var manifest struct{ Layers []struct{ Digest string } }
	out := run(t, tool("crane"), "manifest", "--platform", "linux/"+runtime.GOARCH, image(currentVersion))
	if err := json.Unmarshal([]byte(out), &manifest); err != nil {
		t.Fatal(err)
	}
	layer := r.registry.blob(manifest.Layers[len(manifest.Layers)-1].Digest)
	content := read(t, layer)
	write(t, layer, content[:len(content)-1]+"x")
	upgrade := console.Blocks(t, "docs/operations/upgrade.md", "helm upgrade")[0].Commands[0].Text
	r.testFault(t, upgradePage, "context deadline exceeded", "cd "+built(currentVersion)+" && "+upgrade+" --timeout 20s")
	requirePullError(t, "unexpected commit digest", func() []corev1.Pod { return operators(t) })
	write(t, layer, content)

	agent := pod(systemNamespace, "", "registry")
	agent.GenerateName, agent.Labels = "agent-", map[string]string{"app": "agent"}
	agent.Spec.Containers[0].Image = r.registry.address + "/" + r.path + "/realmkeeper-token-agent:v" + currentVersion
	agents := func() []corev1.Pod { return podsOf(t, agent.Labels) }
	create(t, agent.DeepCopy())
	requirePullError(t, "401 Unauthorized", agents)
	agent.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	r.registry.stop(t)
	create(t, agent)
	requirePullError(t, "connection refused", agents)
	r.registry.start(t)
}

// requirePullError waits until one of the Pods waits for its image with a message that the page about the
// installation explains.
func requirePullError(t *testing.T, want string, pods func() []corev1.Pod) {
	t.Helper()
	var message string
	eventually(t, "the Pods to print "+want, func() error {
		for _, p := range pods() {
			for _, s := range p.Status.ContainerStatuses {
				if s.State.Waiting != nil && strings.Contains(s.State.Waiting.Message, want) {
					message = s.State.Waiting.Message
					return nil
				}
			}
		}
		return errNotYet
	})
	t.Log(message)
	requireExplained(t, installPage, want, message)
}

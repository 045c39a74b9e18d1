package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// findKubectl uses the kubectl in KUBEBUILDER_ASSETS, or the installed one if Kubernetes supports it with
// this API server, and builds one otherwise. A kubectl that is in PATH only because of an earlier
// demo's env file doesn't count as installed.
func (d *demo) findKubectl(ctx context.Context) error {
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		d.kubectl = d.binDir
		return nil
	}
	clientset, err := discovery.NewDiscoveryClientForConfig(d.config)
	if err != nil {
		return err
	}
	server, err := clientset.ServerVersion()
	if err != nil {
		return fmt.Errorf("get the version of the API server: %w", err)
	}
	path, problem := exec.LookPath("kubectl")
	if problem == nil && filepath.Dir(path) != d.binDir {
		problem = checkKubectl(ctx, path, server.GitVersion)
		if problem == nil {
			return nil
		}
	}
	if problem != nil {
		d.Step("Using kubectl %s built from source: %v", server.GitVersion, problem)
	}
	d.kubectl, err = controlplane.BinDir(ctx, os.Stderr, "kubectl")
	return err
}

// checkKubectl returns an error if Kubernetes doesn't support this kubectl with the API
// server. They may differ by one minor version.
func checkKubectl(ctx context.Context, path, serverVersion string) error {
	out, err := exec.CommandContext(ctx, path, "version", "--client", "--output=json").Output()
	if err != nil {
		return fmt.Errorf("get the version of %s: %w", path, err)
	}
	var printed struct {
		ClientVersion apiversion.Info `json:"clientVersion"`
	}
	if err := json.Unmarshal(out, &printed); err != nil {
		return fmt.Errorf("read the version of %s: %w", path, err)
	}
	own, err := version.ParseSemantic(printed.ClientVersion.GitVersion)
	if err != nil {
		return fmt.Errorf("read the version of %s: %w", path, err)
	}
	server, err := version.ParseSemantic(serverVersion)
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	if own.Major() != server.Major() || own.Minor()+1 < server.Minor() || own.Minor() > server.Minor()+1 {
		return fmt.Errorf("%s has version %s, which differs by more than one minor version", path, printed.ClientVersion.GitVersion)
	}
	return nil
}

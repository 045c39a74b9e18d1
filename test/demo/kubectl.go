package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// findKubectl uses the installed kubectl if Kubernetes supports it with this API server,
// and builds one otherwise.
func (d *demo) findKubectl(ctx context.Context) error {
	clientset, err := discovery.NewDiscoveryClientForConfig(d.config)
	if err != nil {
		return err
	}
	server, err := clientset.ServerVersion()
	if err != nil {
		return fmt.Errorf("get the version of the API server: %w", err)
	}
	problem := checkKubectl(ctx, server.GitVersion)
	if problem == nil {
		return nil
	}
	d.Step("Using a kubectl %s built here: %v", server.GitVersion, problem)
	d.kubectl, err = controlplane.BinDir(ctx, os.Stderr, "kubectl")
	return err
}

// checkKubectl reports why the kubectl in PATH can't be used, or nil. Kubernetes supports
// a kubectl that is at most one minor version older or newer than the API server.
func checkKubectl(ctx context.Context, serverVersion string) error {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return err
	}
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
		return fmt.Errorf("%s is %s, which differs by more than one minor version", path, printed.ClientVersion.GitVersion)
	}
	return nil
}

//go:build e2e

package e2e_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin"
)

// A support bundle contains the objects of a real installation, and the logs and metrics of its Pods, which only a
// cluster with a kubelet has.
func TestReport(t *testing.T) {
	useInstallation(t)
	path := filepath.Join(t.TempDir(), "report.zip")
	var stdout, stderr bytes.Buffer
	streams := plugin.Streams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr}
	args := []string{"report", "--file", path, "--logs-since", "24h", "--kubeconfig", os.Getenv("KUBECONFIG")}
	if code := plugin.Run(t.Context(), streams, args); code != 0 {
		t.Fatalf("report: exit code %d, %s%s", code, stdout.String(), stderr.String())
	}
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	// What each file must contain. The names of Pods end in random characters.
	want := map[string]string{
		"objects/instances.yaml":          "type: Ready",
		"objects/deployments.yaml":        "name: realmkeeper-token-server",
		"objects/pods.yaml":               "phase: Running",
		"objects/nodes.yaml":              "kubeletVersion: v1.",
		"logs/realmkeeper-operator-":      `"msg":`,
		"logs/realmkeeper-token-server-":  "Token server started",
		"metrics/realmkeeper-operator-":   "go_goroutines",
		"metrics/realmkeeper-token-serve": "realmkeeper_",
		"metrics/realmkeeper-portal-":     "go_goroutines",
	}
	for _, file := range archive.File {
		for name, word := range want {
			if strings.HasPrefix(file.Name, name) && strings.Contains(contentOf(t, file), word) {
				delete(want, name)
			}
		}
	}
	for name, word := range want {
		t.Errorf("No file %s contains %s", name, word)
	}
}

func contentOf(t *testing.T, file *zip.File) string {
	t.Helper()
	opened, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	content, err := io.ReadAll(opened)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

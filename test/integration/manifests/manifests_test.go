// Package manifests_test applies the manifests in config as users do, with kubectl to a real
// API server.
package manifests_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

// manifests is the path of the manifests.
var manifests = filepath.Join("..", "..", "..", "config")

func TestMain(m *testing.M) {
	env.Main(m, env.WithCRDs()) // The CRDs are part of the test.
}

func TestManifests(t *testing.T) {
	cluster := env.Start(t)
	// The namespaces and the CRDs must exist before a dry run of the overlays.
	cluster.Kubectl(t, "apply", "-k", filepath.Join(manifests, "crd"))
	for _, file := range []string{"namespace.yaml", "records_namespace.yaml"} {
		cluster.Kubectl(t, "apply", "-f", filepath.Join(manifests, "manager", file))
	}
	cluster.Kubectl(t, "wait", "--for=condition=Established", "-f", filepath.Join(manifests, "crd", "bases"), "--timeout=30s")

	for _, overlay := range []string{"testing", "production"} {
		t.Run(overlay, func(t *testing.T) {
			out := cluster.Kubectl(t, "apply", "-k", filepath.Join(manifests, "overlays", overlay), "--dry-run=server")
			for _, want := range []string{
				"deployment.apps/realmkeeper-operator ",
				"configmap/realmkeeper-config-",
				"clusterrole.rbac.authorization.k8s.io/realmkeeper-operator ",
				"role.rbac.authorization.k8s.io/realmkeeper-operator ",
				"serviceaccount/realmkeeper-operator ",
				"serviceaccount/realmkeeper-token-server ",
				"rolebinding.rbac.authorization.k8s.io/realmkeeper-token-server ",
				"validatingadmissionpolicy.admissionregistration.k8s.io/realmkeeper-operator-secrets.realmkeeper-system ",
				"validatingadmissionpolicybinding.admissionregistration.k8s.io/realmkeeper-operator-secrets.realmkeeper-system ",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("%s was not applied:\n%s", want, out)
				}
			}
		})
	}
	t.Run("switch overlays", func(t *testing.T) {
		cluster.Kubectl(t, "apply", "-k", filepath.Join(manifests, "overlays", "testing"))
		cluster.Kubectl(t, "apply", "-k", filepath.Join(manifests, "overlays", "production"))
	})
	t.Run("uninstall", func(t *testing.T) {
		overlay := filepath.Join(manifests, "overlays", "production")
		cluster.Kubectl(t, "delete", "--kustomize", overlay, "--selector", "app.kubernetes.io/component notin (crd, namespace)")
		kept := cluster.Kubectl(t, "get", "--kustomize", overlay, "--ignore-not-found", "--output",
			`go-template={{range .items}}{{.kind}} {{.metadata.name}}{{with .metadata.deletionTimestamp}} deleted{{end}} {{index .metadata.annotations "argocd.argoproj.io/sync-options"}} {{index .metadata.annotations "kustomize.toolkit.fluxcd.io/prune"}}{{"\n"}}{{end}}`)
		const protected = " Prune=false,Delete=false disabled\n"
		want := strings.Join([]string{
			"Namespace realmkeeper-system", "Namespace realmkeeper-system-records",
			"CustomResourceDefinition apiclients.auth.realmkeeper.dev", "CustomResourceDefinition instances.auth.realmkeeper.dev", "CustomResourceDefinition realms.auth.realmkeeper.dev", "",
		}, protected)
		if kept != want {
			t.Errorf("Kept objects: got\n%s\nwant\n%s", kept, want)
		}
		cluster.Kubectl(t, "apply", "-k", overlay)
	})
	t.Run("samples", func(t *testing.T) {
		cluster.Kubectl(t, "apply", "-k", filepath.Join(manifests, "samples"))
		out := cluster.Kubectl(t, "get", "realmkeeper", "--all-namespaces", "--output=name")
		if want := "apiclient.auth.realmkeeper.dev/billing\nrealm.auth.realmkeeper.dev/acme\n"; out != want {
			t.Errorf("Objects: got\n%s\nwant\n%s", out, want)
		}
	})
}

func TestInstanceConfigurations(t *testing.T) {
	domains := map[string]string{}
	for overlay, wantLifetime := range map[string]time.Duration{
		"testing":    time.Hour,
		"production": 5 * time.Minute,
	} {
		t.Run(overlay, func(t *testing.T) {
			instance, err := config.Load(filepath.Join(manifests, "overlays", overlay, "config.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if got := instance.Security.DefaultTokenLifetime.Duration; got != wantLifetime {
				t.Errorf("Default token lifetime: got %s, want %s", got, wantLifetime)
			}
			if other, ok := domains[instance.InstanceDomain]; ok {
				t.Errorf("Overlay %s has the same instance domain: %s", other, instance.InstanceDomain)
			}
			domains[instance.InstanceDomain] = overlay
		})
	}
}

package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

// manifests is the path of the manifests.
var manifests = filepath.Join("..", "..", "..", "config")

// TestManifests applies the manifests in config as users do, with kubectl.
func TestManifests(t *testing.T) {
	cluster := env.Start(t)
	// The CRDs are part of the test. If their objects are not listed first, the deletion can take five
	// minutes: see deleteCRDs in test/chart.
	cluster.Kubectl(t, "get", "realmkeeper", "--all-namespaces", "--output=name")
	cluster.Kubectl(t, "delete", "-k", filepath.Join(manifests, "crd"))
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
	overlay := filepath.Join(manifests, "overlays", "production")
	uninstall := func(t *testing.T) {
		t.Helper()
		cluster.Kubectl(t, "delete", "--kustomize", overlay, "--selector", "app.kubernetes.io/component notin (crd, namespace)")
	}
	t.Run("uninstall", func(t *testing.T) {
		uninstall(t)
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
	t.Cleanup(func() { uninstall(t) })
	t.Run("samples", func(t *testing.T) {
		deleteObjects(t, cluster)
		cluster.Kubectl(t, "apply", "-k", filepath.Join(manifests, "samples"))
		out := cluster.Kubectl(t, "get", "realmkeeper", "--all-namespaces", "--output=name")
		if want := "apiclient.auth.realmkeeper.dev/billing\nrealm.auth.realmkeeper.dev/acme\n"; out != want {
			t.Errorf("Objects: got\n%s\nwant\n%s", out, want)
		}
	})
}

// TestNameReferences builds manifests with a prefix. The result is the same as if all names had been written with
// the prefix, and the API server accepts it.
func TestNameReferences(t *testing.T) {
	cluster := env.Start(t)
	namespace := cluster.Namespace(t)
	const objects = `
apiVersion: auth.realmkeeper.dev/v1beta1
kind: Realm
metadata: {name: NAME}
spec: {audiences: ["https://orders.acme.example"], grants: [{name: all, namespaces: {from: All}, audiences: ["*"]}]}
---
apiVersion: auth.realmkeeper.dev/v1beta1
kind: ApiClient
metadata: {name: NAME}
spec:
  realmRef: {name: NAME}
  identities: [{name: job, serviceAccount: {name: NAME}}]
  secret: {generated: {}}
---
apiVersion: auth.realmkeeper.dev/v1beta1
kind: ApiClient
metadata: {name: NAME-provided}
spec: {realmRef: {name: NAME}, secret: {provided: {secretRef: {name: NAME-imported}}}}
---
apiVersion: auth.realmkeeper.dev/v1beta1
kind: ApiClient
metadata: {name: NAME-hashed}
spec: {realmRef: {name: platform}, secret: {hashed: [{id: a, hashSecretRef: {name: NAME-imported}}]}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: NAME}
---
apiVersion: v1
kind: Secret
metadata: {name: NAME-imported}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: job}}
  template:
    metadata: {labels: {app: job}}
    spec:
      serviceAccountName: NAME
      containers:
        - name: job
          image: job:dev
          env: [{name: ID, valueFrom: {secretKeyRef: {name: NAME, key: client_id}}}]
          envFrom: [{secretRef: {name: NAME}}]
      initContainers:
        - name: init
          image: job:dev
          env: [{name: ID, valueFrom: {secretKeyRef: {name: NAME, key: client_id}}}]
          envFrom: [{secretRef: {name: NAME}}]
      volumes:
        - {name: credentials, secret: {secretName: NAME}}
        - {name: projected, projected: {sources: [{secret: {name: NAME}}]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: NAME}
spec:
  schedule: "@daily"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          serviceAccountName: NAME
          containers:
            - name: job
              image: job:dev
              env: [{name: ID, valueFrom: {secretKeyRef: {name: NAME, key: client_id}}}]
              envFrom: [{secretRef: {name: NAME}}]
          initContainers:
            - name: init
              image: job:dev
              env: [{name: ID, valueFrom: {secretKeyRef: {name: NAME, key: client_id}}}]
              envFrom: [{secretRef: {name: NAME}}]
          volumes:
            - {name: credentials, secret: {secretName: NAME}}
            - {name: projected, projected: {sources: [{secret: {name: NAME}}]}}
`
	const pushSecret = `
apiVersion: external-secrets.io/v1alpha1
kind: PushSecret
metadata: {name: NAME}
spec: {selector: {secret: {name: NAME}}}
`
	dir := t.TempDir()
	component, err := filepath.Rel(dir, absolute(t, filepath.Join(manifests, "components", "name-references")))
	if err != nil {
		t.Fatal(err)
	}
	build := func(overlay, text string) string {
		t.Helper()
		overlay = "namespace: " + namespace + "\nresources: [objects.yaml]\n" + overlay
		for file, content := range map[string]string{"kustomization.yaml": overlay, "objects.yaml": text} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return cluster.Kubectl(t, "kustomize", dir)
	}
	named := func(name, text string) string { return strings.ReplaceAll(text, "NAME", name) }

	prefixed := "namePrefix: staging-\ncomponents: [" + component + "]\n"
	testkit.Diff(t, "manifests", build("", named("staging-billing", objects+"---"+pushSecret)), build(prefixed, named("billing", objects+"---"+pushSecret)))

	build(prefixed, named("billing", objects))
	cluster.Kubectl(t, "apply", "-k", dir, "--server-side", "--dry-run=server", "--validate=strict")
}

// TestDocumentedPrefix builds the example of docs/for-gitops.md.
func TestDocumentedPrefix(t *testing.T) {
	cluster := env.Start(t)
	cluster.Kubectl(t, "apply", "-f", filepath.Join(manifests, "samples", "namespace.yaml"))
	got := cluster.Kubectl(t, "apply", "-k", filepath.Join("..", "..", "..", "docs", "gitops", "kustomize", "staging"),
		"--server-side", "--dry-run=server", "--validate=strict", "--output",
		`go-template={{range .items}}{{.kind}} {{.metadata.namespace}}/{{.metadata.name}}{{with .spec.realmRef}} {{.name}}{{end}}{{with .spec.template}}{{range .spec.volumes}} {{.secret.secretName}}{{end}}{{end}}{{"\n"}}{{end}}`)
	testkit.Diff(t, "objects", "Deployment acme-apps/staging-billing staging-billing\nApiClient acme-apps/staging-billing acme\n", got)
}

// deleteObjects deletes all Realms and ApiClients at the end of the test, because other tests expect only theirs.
func deleteObjects(t *testing.T, cluster *env.Env) {
	t.Helper()
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "apiclients,realms", "--all", "--all-namespaces") })
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
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

// Command chart generates the templates of the Helm chart that duplicate manifests in config: the
// CRDs, the RBAC rules, the admission policies, and the records namespace.
//
//	make generate
//
// It runs in the root of the repository.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	templates = "charts/realmkeeper/templates"
	// shippedNamespace is the system namespace in the manifests of config. The chart uses the
	// release namespace instead.
	shippedNamespace = "realmkeeper-system"
	// shippedRecordsNamespace is the records namespace in the manifests of config.
	shippedRecordsNamespace = shippedNamespace + "-records"
)

// source is a manifest in config that the chart also contains.
type source struct {
	path string // relative to config
	to   string // directory in the chart's templates
	// condition is the chart value that enables the template. If empty, the template is always
	// rendered.
	condition string
	// annotations are added to every object, one per line.
	annotations []string
}

// scope describes when and where the chart creates an object of config that isn't always
// cluster-scoped.
type scope struct {
	// begin and end enclose the object.
	begin, end string
	// namespaced creates the object in $namespace if that isn't empty.
	namespaced bool
}

// scopes contains the objects whose scope depends on the values, by name.
var scopes = map[string]scope{
	"realmkeeper-operator-clients": {
		begin: `{{- range $namespace := include "realmkeeper.servedNamespaces" . | fromYamlArray }}`, end: "{{- end }}", namespaced: true,
	},
	"realmkeeper-operator-credentials": {
		begin: `{{- range $namespace := include "realmkeeper.servedNamespaces" . | fromYamlArray }}` + "\n{{- if $.Values.credentialsSecrets.enabled }}",
		end:   "{{- end }}\n{{- end }}", namespaced: true,
	},
	"realmkeeper-operator-trust-bundle": {begin: "{{- if .Values.tls.managed.clusterTrustBundle }}", end: "{{- end }}"},
	"realmkeeper-operator-namespaces":   {begin: "{{- if not .Values.operator.watchNamespaces }}", end: "{{- end }}"},
}

// keep lists the annotations that make Helm, Argo CD, and Flux keep an object. In config, only
// objects that aren't CRDs contain the last two, because kustomize adds them to the CRDs.
var keep = []string{
	"helm.sh/resource-policy: keep",
	"argocd.argoproj.io/sync-options: Prune=false,Delete=false",
	"kustomize.toolkit.fluxcd.io/prune: disabled",
}

// annotated are the kinds of objects with annotations from values, and the value. These objects end with
// their metadata, and have no other annotations.
var annotated = map[string]string{"kind: ServiceAccount": ".Values.tokenServer.serviceAccount.annotations"}

const annotationsOf = `  {{- with %s }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}`

var sources = []source{
	{path: "crd/bases/auth.realmkeeper.dev_apiclients.yaml", to: "crds", condition: "crds.enabled", annotations: keep},
	{path: "crd/bases/auth.realmkeeper.dev_instances.yaml", to: "crds", condition: "crds.enabled", annotations: keep},
	{path: "crd/bases/auth.realmkeeper.dev_realms.yaml", to: "crds", condition: "crds.enabled", annotations: keep},
	{path: "rbac/instance.yaml", to: "rbac"},
	{path: "rbac/role.yaml", to: "rbac"},
	{path: "rbac/role_binding.yaml", to: "rbac"},
	{path: "rbac/served_namespaces_role_binding.yaml", to: "rbac"},
	{path: "rbac/trust_bundle_role_binding.yaml", to: "rbac"},
	{path: "rbac/leader_election_role.yaml", to: "rbac"},
	{path: "rbac/leader_election_role_binding.yaml", to: "rbac"},
	{path: "rbac/token_server.yaml", to: "rbac"},
	{path: "rbac/aggregated_roles.yaml", to: "rbac", condition: "rbac.aggregatedRoles"},
	{path: "rbac/manage_api_credentials_role.yaml", to: "rbac"},
	{path: "admission/operator_secrets_policy.yaml", to: "admission"},
	{path: "admission/operator_token_service_policy.yaml", to: "admission"},
	{path: "admission/realm_protection_policy.yaml", to: "admission", condition: "realmProtection.enabled"},
	{path: "admission/token_server_policy.yaml", to: "admission"},
	{path: "manager/records_namespace.yaml", condition: "recordsNamespace.create", annotations: keep[:1]},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run() error {
	for _, s := range sources {
		manifest, err := os.ReadFile(filepath.Join("config", s.path))
		if err != nil {
			return err
		}
		template, err := s.template(string(manifest))
		if err != nil {
			return fmt.Errorf("convert config/%s to a template: %w", s.path, err)
		}
		to := filepath.Join(templates, s.to, filepath.Base(s.path))
		if err := os.WriteFile(to, []byte(template), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var errNoMetadata = errors.New("object has no metadata")

// template returns a Helm template that renders the manifest and adds the labels of the chart to
// every object.
func (s source) template(manifest string) (string, error) {
	// Descriptions can contain braces that Helm must not interpret as template actions.
	manifest = strings.ReplaceAll(manifest, "{{", `{{ "{{" }}`)
	manifest = strings.TrimPrefix(manifest, "---\n")
	objects := strings.Split(manifest, "\n---\n")
	for i, object := range objects {
		before, after, ok := strings.Cut(object, "\nmetadata:\n")
		if !ok {
			return "", errNoMetadata
		}
		after = under(after, "labels", `{{- include "realmkeeper.labels" . | nindent 4 }}`)
		for _, annotation := range slices.Backward(s.annotations) {
			after = under(after, "annotations", annotation)
		}
		if value, ok := annotated[strings.TrimSpace(before[strings.LastIndex(before, "\n")+1:])]; ok {
			after = strings.TrimSuffix(after, "\n") + "\n" + fmt.Sprintf(annotationsOf, value)
		}
		objects[i] = scoped(before + "\nmetadata:\n" + after)
	}
	body := strings.Join(objects, "\n---\n")
	body = strings.ReplaceAll(body, shippedRecordsNamespace, `{{ include "realmkeeper.recordsNamespace" . }}`)
	body = strings.ReplaceAll(body, shippedNamespace, "{{ .Release.Namespace }}")
	if s.condition != "" {
		body = "{{- if .Values." + s.condition + " }}\n" + body + "{{- end }}\n"
	}
	return "{{- /* Generated from config/" + s.path + " by make generate. */}}\n" + body, nil
}

// scoped applies the scope of an object in a template, if it has one.
func scoped(object string) string {
	name := objectName.FindStringSubmatch(object)
	s, ok := scopes[name[1]]
	if !ok {
		return object
	}
	if s.namespaced {
		object = strings.ReplaceAll(object, "kind: ClusterRole", `kind: {{ if $namespace }}Role{{ else }}ClusterRole{{ end }}`)
		object = strings.Replace(object, name[0], name[0]+"  {{- with $namespace }}\n  namespace: {{ . }}\n  {{- end }}\n", 1)
		object = strings.ReplaceAll(object, `"realmkeeper.labels" .`, `"realmkeeper.labels" $`)
		object = strings.ReplaceAll(object, shippedNamespace, "{{ $.Release.Namespace }}")
	}
	return s.begin + "\n---\n" + strings.TrimSuffix(object, "\n") + "\n" + s.end + "\n"
}

// objectName matches the name of an object, up to the system namespace that it may contain.
var objectName = regexp.MustCompile(`\n  name: ([-.a-z0-9]+)\S*\n`)

// under inserts a line into the named map of the metadata at the beginning of text. It adds the map
// if it is missing.
func under(text, name, line string) string {
	key, entry := "  "+name+":\n", "    "+line+"\n"
	at := 0
	for l := range strings.Lines(text) {
		if !strings.HasPrefix(l, " ") {
			break // end of the metadata
		}
		at += len(l)
		if l == key {
			return text[:at] + entry + text[at:]
		}
	}
	return key + entry + text
}

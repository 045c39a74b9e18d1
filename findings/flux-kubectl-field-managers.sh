#!/usr/bin/env bash
# Finding: Flux reverts fields that Git doesn't set, if the name of the field manager that set them
# begins with kubectl, as the names of kubectl plugins do.
#
# Software:  github.com/fluxcd/pkg/ssa v0.76.2, with the field managers that
#            github.com/fluxcd/kustomize-controller v1.9.6 passes to it.
# Guess:     Flux uses server-side apply, so it owns what Git sets. A field that Git doesn't set belongs
#            to the one who set it, and stays. To undo kubectl apply, Flux takes over the fields of
#            kubectl's own managers.
# Behavior:  The name kubectl is a prefix: Flux takes over the fields of all managers whose names begin
#            with it. It doesn't apply these fields, so the API server then removes them. client-go uses
#            the name of the program if none is set, so this concerns kubectl plugins by default.
# Seen:      see "expected" below, on 30 November 2026.
#
# What follows for a kubectl plugin that changes objects, such as one that pauses them in an emergency:
# set a field manager whose name doesn't begin with kubectl. Otherwise, Flux silently reverts the change
# with its next reconciliation.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOF'
module finding

go 1.26.0

require (
	github.com/fluxcd/pkg/ssa v0.76.2
	k8s.io/apimachinery v0.36.4
)
EOF

cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/fluxcd/pkg/ssa"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

const flux = "kustomize-controller"

// cleanup are the managers whose fields kustomize-controller takes over.
var cleanup = []ssa.FieldManager{
	{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
	{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
	{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
	{Name: flux, OperationType: metav1.ManagedFieldsOperationUpdate},
}

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func widget(spec map[string]any) *unstructured.Unstructured {
	w := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "w"}}}
	if spec != nil {
		w.Object["spec"] = spec
	}
	w.SetGroupVersionKind(kind)
	return w
}

// oneVersion is what the API server does for a kind with one version.
type oneVersion struct{}

func (oneVersion) Convert(_, _, _ any) error {
	return runtime.NewNotRegisteredErrForTarget("", nil, nil)
}

func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (oneVersion) Default(runtime.Object) {}

func (oneVersion) New(schema.GroupVersionKind) (runtime.Object, error) { return widget(nil), nil }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	server := must(managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), oneVersion{}, oneVersion{}, oneVersion{}, kind, kind.GroupVersion(), "", nil))
	inGit := func() *unstructured.Unstructured { return widget(map[string]any{"size": int64(1)}) }
	for _, manager := range []string{"kubectl-edit", "kubectl-widgets", "kubectlish", "widgets-plugin"} {
		live := must(server.Apply(widget(nil), inGit(), flux, true)).(*unstructured.Unstructured)
		changed := live.DeepCopy()
		if err := unstructured.SetNestedField(changed.Object, true, "spec", "paused"); err != nil {
			panic(err)
		}
		live = must(server.Update(live, changed, manager)).(*unstructured.Unstructured)
		// Flux applies what is in Git, which hasn't changed.
		for _, patch := range must(ssa.PatchReplaceFieldsManagers(live, cleanup, flux)) {
			live.SetManagedFields(patch.Value)
		}
		live = must(server.Apply(live, inGit(), flux, true)).(*unstructured.Unstructured)
		_, stays, _ := unstructured.NestedBool(live.Object, "spec", "paused")
		fmt.Printf("spec.paused, set by %-16s stays: %t\n", manager, stays)
	}
}
EOF

go mod tidy >/dev/null 2>&1
go list -m github.com/fluxcd/pkg/ssa
controller=$(go mod download -json github.com/fluxcd/kustomize-controller@v1.9.6 | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
kubectl=$(grep -A 1 'Name: *"kubectl",' "$controller/internal/controller/kustomization_controller.go" | grep -c OperationType)
echo "kustomize-controller takes over the fields of kubectl with $kubectl operations"
seen=$(go run .)
printf '%s\n' "$seen"

expected='spec.paused, set by kubectl-edit     stays: false
spec.paused, set by kubectl-widgets  stays: false
spec.paused, set by kubectlish       stays: false
spec.paused, set by widgets-plugin   stays: true'
if [[ $kubectl != 2 || $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."

#!/usr/bin/env bash
# Finding: kstatus, with which Flux waits for objects, considers Ready=True of an earlier generation
# as ready.
#
# Software:  github.com/fluxcd/cli-utils v1.3.0, package kstatus/status, with which Flux and others
#            judge objects.
# Guess:     A condition has an observedGeneration of its own (metav1.Condition), so a condition
#            Ready=True of an earlier generation isn't the state of the current one: InProgress.
#            kubectl wait compares it, too.
# Behavior:  kstatus compares metadata.generation only with status.observedGeneration. Without this
#            field, it believes every condition: Ready=True of the generation before a change is
#            Current, and Stalled=True is Failed. Of a condition with an observedGeneration of its
#            own, it reads only type, status, reason, and message.
# Seen:      see "expected" below.
#
# What follows for an operator: also write status.observedGeneration. Otherwise, tools continue after
# a change before the operator has seen it, or fail because of a mistake that was just mended.
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
	github.com/fluxcd/cli-utils v1.3.0
	k8s.io/apimachinery v0.37.2
)
EOF

cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func judge(name string, objectStatus map[string]any) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w", "namespace": "n", "generation": int64(2)},
	}}
	if objectStatus != nil {
		object.Object["status"] = objectStatus
	}
	result, err := status.Compute(object)
	if err != nil {
		fmt.Printf("%-70s %v\n", name, err)
		return
	}
	fmt.Printf("%-70s %s\n", name, result.Status)
}

func conditions(all ...map[string]any) map[string]any {
	list := make([]any, len(all))
	for i, c := range all {
		list[i] = c
	}
	return map[string]any{"conditions": list}
}

func condition(name, value string, generation int64) map[string]any {
	return map[string]any{"type": name, "status": value, "observedGeneration": generation, "reason": "R", "message": "m"}
}

func with(status map[string]any, generation int64) map[string]any {
	status["observedGeneration"] = generation
	return status
}

func main() {
	judge("generation 2, no status", nil)
	judge("generation 2, Ready=True of generation 1", conditions(condition("Ready", "True", 1)))
	judge("generation 2, Ready=True of generation 1, status.observedGeneration 1", with(conditions(condition("Ready", "True", 1)), 1))
	judge("generation 2, Ready=True of generation 1, status.observedGeneration 2", with(conditions(condition("Ready", "True", 1)), 2))
	judge("generation 2, Ready=False of generation 2", conditions(condition("Ready", "False", 2)))
	judge("generation 2, Stalled=True of generation 1", conditions(condition("Stalled", "True", 1)))
	judge("generation 2, Ready=False and Stalled=True of generation 2", conditions(condition("Ready", "False", 2), condition("Stalled", "True", 2)))
}
EOF

go mod tidy >/dev/null 2>&1
go list -m github.com/fluxcd/cli-utils
seen=$(go run .)
printf '%s\n' "$seen"

expected='generation 2, no status                                                Current
generation 2, Ready=True of generation 1                               Current
generation 2, Ready=True of generation 1, status.observedGeneration 1  InProgress
generation 2, Ready=True of generation 1, status.observedGeneration 2  Current
generation 2, Ready=False of generation 2                              InProgress
generation 2, Stalled=True of generation 1                             Failed
generation 2, Ready=False and Stalled=True of generation 2             Failed'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."

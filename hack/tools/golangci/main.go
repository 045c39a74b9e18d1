// Golangci is golangci-lint with kube-api-linter, which checks Kubernetes API types. Upstream,
// "golangci-lint custom" builds such a binary, but it clones a repository for that.
package main

import (
	"fmt"
	"os"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"

	_ "sigs.k8s.io/kube-api-linter/pkg/plugin/base"  // the plugin
	_ "sigs.k8s.io/kube-api-linter/pkg/registration" // its rules
)

func main() {
	if err := commands.Execute(commands.BuildInfo{Version: "pinned"}); err != nil {
		fmt.Fprintln(os.Stderr, "Failed to lint:", err)
		os.Exit(exitcodes.Failure)
	}
}

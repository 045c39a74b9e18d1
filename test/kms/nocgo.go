//go:build !cgo

// Command kms is a KMS v2 plugin for tests. It requires cgo.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "kms: built without cgo; set CGO_ENABLED=1")
	os.Exit(1)
}

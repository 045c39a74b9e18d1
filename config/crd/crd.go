// Package crd contains the CustomResourceDefinitions for programs that validate objects without a
// cluster.
package crd

import "embed"

// Files contains the CustomResourceDefinitions in bases/.
//
//go:embed bases/*.yaml
var Files embed.FS

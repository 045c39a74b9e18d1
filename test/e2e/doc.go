// Package e2e tests Realmkeeper as users run it: installed with the chart and the image in a real
// cluster, and used by Pods. `make e2e` runs the tests with the build tag e2e. docs/cluster.md
// describes the cluster.
package e2e

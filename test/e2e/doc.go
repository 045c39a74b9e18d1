// Package e2e tests Realmkeeper as its users run it: installed by its chart from its image
// into a real cluster, used by pods. `make e2e` runs it, with the tag e2e; docs/cluster.md
// tells on which cluster.
package e2e

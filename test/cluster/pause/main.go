// Command pause is the first process of every Pod of the cluster. It keeps the namespaces of
// the Pod while containers start and stop.
package main

import "github.com/realmkeeper/realmkeeper/test/cluster/reap"

func main() { reap.UntilTerminated() }

// Command pause is the first process of every pod of the cluster. It holds the pod's
// namespaces while its containers come and go.
package main

import "github.com/realmkeeper/realmkeeper/test/cluster/reap"

func main() { reap.UntilTerminated() }

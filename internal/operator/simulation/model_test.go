// Package simulation runs the operator and the token servers against an API in memory, one step at a time,
// and checks after each step what must always hold (docs/architecture.md). It has only tests.
//
// What is real: the reconcilers of Realms and ApiClients, the tracker of acknowledgements with the
// program that removes the Leases of dead servers, and the token servers' feed with its watch, its registry, and
// its heartbeat. They are built in product_test.go, the only file that knows how.
//
// What is modeled: the API server (api_test.go), whose store is internal/kubeapi/memory. A request is in flight until
// the search lets it land, and lands even if its sender has died. A watch delivers one event at a time, and
// the watches of one process are independent, so its caches show different times. A watch cache of the
// API server can stop, and reads with resource version 0 come from there. Time is that of a
// testing/synctest bubble: it passes only if a step says so. A run therefore depends only on its choices, and the
// same choices repeat it.
//
// There are three tests. TestFindings has a small search for each known mistake. TestExplore searches from
// several states with groups of choices, as deep as the time allows. TestRandomRuns combines all faults. The
// flag -explore or $EXPLORE sets how long TestExplore and TestRandomRuns take. A run that fails prints its
// steps: those with an asterisk were chosen, and the others follow from them. To repeat a run, pass -choices to
// TestExplore, or -rapid.seed to TestRandomRuns.
//
// Clocks differ in one theme of TestExplore and in random runs. A rollback of etcd replaces the store by an earlier one, and
// all watches expire. An API checks tokens with the lists that it has loaded (verifier_test.go).
//
// Clients choose from 16 indexes of status lists, so that they soon get those of others. The simulation records to
// which indexes the tokens of each server refer. It checks that no other client gets such an index while a token
// is valid.
//
// A token server that was cut off for longer than heartbeat.Duration doesn't count until it has caught up,
// because the operator may go on without it.
//
// What isn't modeled: admission, permissions, the network of the token servers' clients, certificates, trusted
// issuers, key encryption, and the last use of credentials (package lastuse has a model of its own, so S13
// isn't checked here). The beacon isn't written: operators know at once that etcd was rolled back. Leader election is a step: an operator leads or it doesn't, and two can. The queue of a
// controller is a set of objects that are due; the order among them is fixed.
package simulation

package attack_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/attack/corpus"
)

// Connections that break the rules cost a server no more memory than its limit, and honest clients
// no more calls than a flood does.
func TestCorpus(t *testing.T) {
	writeReport(t)
	for _, v := range victims(t) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel() // unless -parallel is 1, the programs share the core
			server := v.start(t, "--proxy-protocol-from", proxySource+"/32")
			attack := func(name string, from sources) {
				t.Run(name+"/"+from.name, func(t *testing.T) {
					v.attack(t, server, server.Address, name, corpus.Attacks[name], from, *each)
				})
			}
			for _, name := range corpus.Names() {
				attack(name, oneSource)
			}
			for _, name := range corpus.ProxyNames() {
				attack(name, oneProxy)
			}
		})
	}
}

package httpserver_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
)

func TestDivide(t *testing.T) {
	const mib = 1 << 20
	tests := map[string]struct {
		limit int64
		want  httpserver.Memory
	}{
		"token server of the chart": {256 * mib, httpserver.Memory{Connections: 512, PerSource: 128, InFlight: 256, SlowHashes: 64 * mib}},
		"portal of the chart":       {128 * mib, httpserver.Memory{Connections: 256, PerSource: 64, InFlight: 128, SlowHashes: 32 * mib}},
		"very little":               {16 * mib, httpserver.Memory{Connections: 64, PerSource: 16, InFlight: 32, SlowHashes: 4 * mib}},
		"very much":                 {1 << 40, httpserver.Memory{Connections: 20_000, PerSource: 5_000, InFlight: 20_000, SlowHashes: 1 << 38}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.want.Limit = tc.limit
			testkit.Diff(t, "result", tc.want, httpserver.Divide(tc.limit))
		})
	}
}

// Connections are closed once for each garbage collection, because only the next one shows what that has
// released.
func TestMemoryShort(t *testing.T) {
	for name, tc := range map[string]struct {
		live, collections uint64
		want              bool
	}{
		"enough":                   {live: 80, collections: 2},
		"too little":               {live: 81, collections: 2, want: true},
		"not collected since then": {live: 81, collections: 1},
	} {
		testkit.Diff(t, name, tc.want, httpserver.MemoryShort(1, tc.live, tc.collections, 100))
	}
}

package clientauth_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
)

// One core stays for others, and what is verified at a time fits into a token server's memory.
func TestSlowRoom(t *testing.T) {
	for cores, want := range map[int]int64{1: 19 << 20, 2: 19 << 20, 3: 38 << 20, 4: 57 << 20, 5: 64 << 20, 64: 64 << 20} {
		if got := clientauth.SlowRoom(cores); got != want {
			t.Errorf("%d bytes on %d cores, want %d", got, cores, want)
		}
	}
}

func TestMemoryOfGoodResultsIsBounded(t *testing.T) {
	if kept, newest := clientauth.Remembered(100_000); kept > 16_384 || kept < 8_192 || !newest {
		t.Errorf("of 100,000 results %d are kept, the newest: %t", kept, newest)
	}
}

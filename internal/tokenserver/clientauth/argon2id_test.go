package clientauth_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
)

func TestArgon2idLeavesACoreAndMemoryFree(t *testing.T) {
	for cores, want := range map[int]int64{1: 19 << 20, 2: 19 << 20, 3: 38 << 20, 4: 57 << 20, 5: 64 << 20, 64: 64 << 20} {
		if got := clientauth.Argon2idMemory(cores); got != want {
			t.Errorf("got %d bytes on %d cores, want %d", got, cores, want)
		}
	}
}

func TestRememberedSecretsAreBounded(t *testing.T) {
	if kept, newest := clientauth.RememberCorrectSecrets(100_000); kept > 16_384 || kept < 8_192 || !newest {
		t.Errorf("of 100,000 secrets %d are kept (newest: %t), want 8,192 to 16,384 and the newest", kept, newest)
	}
}

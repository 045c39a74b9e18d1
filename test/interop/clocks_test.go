package interop_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// TestClockDifference checks what the page on verification says about PyJWT, whose clock is behind here: it
// rejects the token unless it has the option.
func TestClockDifference(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: "1", Algorithm: "ES256", Use: "sig"}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	if err != nil {
		t.Fatal(err)
	}
	keys := serveKeySet(t, string(set))
	tests := map[string]struct {
		variables []string
		want      bool
	}{
		"by default": {nil, false},
		"leeway=30":  {[]string{"LEEWAY=30"}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			accepts := keys.pyJWT(t, tc.variables...)
			for ahead, want := range map[time.Duration]bool{0: true, 25 * time.Second: tc.want, time.Minute: false} {
				issued := time.Now().Add(ahead).Unix()
				token := signJWT(t, key, "at+jwt", map[string]any{"sub": "acme-apps.billing", "iat": issued, "exp": issued + 300})
				if got := accepts(t, token); got != want {
					t.Errorf("PyJWT accepts a token from %s ahead: %t, want %t", ahead, got, want)
				}
			}
		})
	}
}

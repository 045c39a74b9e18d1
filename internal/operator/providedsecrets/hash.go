package providedsecrets

import (
	"errors"
	"io"

	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

// ErrNoKey means that a provided Secret has no value under the key in the spec.
var ErrNoKey = errors.New("no such key")

// Result is the outcome of hashing a value.
type Result struct {
	// Hash is the PHC string of the value; empty if the value cannot be used.
	Hash string
	// Err is the reason why the value cannot be used: ErrNoKey, clientsecret.ErrTooShort, or
	// clientsecret.ErrNotUsable.
	Err error
}

// Hash hashes the value of key. If the value matches the recorded hash, Hash returns that one. A new
// one uses Argon2id unless the value has the format of a generated secret.
//
// Errors of the call come from the random source.
func Hash(data map[string][]byte, key, recorded string, random io.Reader) (Result, error) {
	raw, ok := data[key]
	if !ok {
		return Result{Err: ErrNoKey}, nil
	}
	value := string(raw)
	if unusable := clientsecret.CheckChosen(value); unusable != nil {
		return Result{Err: unusable}, nil //nolint:nilerr // The result contains the error, which is one of the value.
	}
	if verifier, err := clientsecret.ParseVerifier(recorded); err == nil && verifier.Verify(value) {
		return Result{Hash: recorded}, nil
	}
	hash := clientsecret.HashArgon2id
	if clientsecret.WellFormed(value) {
		hash = clientsecret.Hash
	}
	verifier, err := hash(value, random)
	if err != nil {
		return Result{}, err
	}
	return Result{Hash: verifier.String()}, nil
}

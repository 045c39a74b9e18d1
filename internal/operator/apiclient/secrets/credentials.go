package secrets

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Credentials are the well-formed values in a client's credentials Secret.
type Credentials struct {
	// Current is the value that workloads use. Next is the value that replaces it.
	Current, Next Value
	// Others are the values under other keys.
	Others []string
}

// Value is a client secret in the credentials Secret. Its Plaintext is empty if the Secret has none.
type Value struct {
	Plaintext string
	// Serial numbers the values that the operator has generated for the client, beginning with 1. It is 0
	// if the operator hasn't written this value.
	Serial int64
}

// values returns all values, the current one first.
func (c *Credentials) values() []string {
	if c == nil {
		return nil
	}
	return append([]string{c.Current.Plaintext, c.Next.Plaintext}, c.Others...)
}

// Owner contains the UIDs of the Realm and of the client for which a value was generated.
type Owner struct{ Realm, Client string }

// Mark returns the annotation that the operator writes together with a value. It contains the serial and
// a digest, so that a value that anyone else has written has no valid mark. The digest reveals nothing
// about the value, which has 256 random bits.
func (o Owner) Mark(v Value) string {
	return strconv.FormatInt(v.Serial, 10) + ":" + o.digest(v)
}

// Read returns the value with the given plaintext and mark. Its serial is 0 if the mark belongs to another
// value, client, or Realm.
func (o Owner) Read(plaintext, mark string) Value {
	serial, digest, _ := strings.Cut(mark, ":")
	n, err := strconv.ParseInt(serial, 10, 64)
	if v := (Value{plaintext, n}); err == nil && plaintext != "" && digest == o.digest(v) {
		return v
	}
	return Value{Plaintext: plaintext}
}

func (o Owner) digest(v Value) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%s", o.Realm, o.Client, v.Serial, v.Plaintext))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Package statuslist encodes token status lists (draft-ietf-oauth-status-list).
package statuslist

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"time"
)

// Type is the "typ" header parameter of a list (section 5.1), and MediaType its media type.
const (
	Type      = "statuslist+jwt"
	MediaType = "application/statuslist+jwt"
)

// MinEntries is the minimum number of entries of a list.
const MinEntries = 1024

// Lifetime returns how long verifiers can use a list after the time of its state, if the token server that
// signed it can't reach the API server. The server is not ready after maxStaleness; zero means that it stays
// ready. Verifiers get the list again after ttl.
func Lifetime(maxStaleness, ttl time.Duration) time.Duration {
	lifetime := time.Hour
	if maxStaleness != 0 {
		lifetime = maxStaleness + time.Minute // A server that is ready must not serve an expired list.
	}
	return max(lifetime, 3*ttl)
}

// Bits are the entries of a list with one bit each (section 4.1): 0 is VALID and 1 INVALID. The entry with
// index 0 is the least significant bit of the first byte.
type Bits []byte

// NewBits returns the smallest list with a power of two of entries, at least MinEntries, that contains the
// given index. All are VALID.
func NewBits(index int) Bits {
	size := MinEntries
	for size <= index {
		size *= 2
	}
	return make(Bits, size/8)
}

// Containing returns the list if it contains the given index. Otherwise, it returns a longer copy.
func (b Bits) Containing(index int) Bits {
	if index < b.Len() {
		return b
	}
	longer := NewBits(index)
	copy(longer, b)
	return longer
}

// Len returns the number of entries.
func (b Bits) Len() int { return 8 * len(b) }

// SetInvalid makes an entry INVALID. The index must be less than Len.
func (b Bits) SetInvalid(index int) { b[index/8] |= 1 << (index % 8) }

// SetValid makes an entry VALID. The index must be less than Len.
func (b Bits) SetValid(index int) { b[index/8] &^= 1 << (index % 8) }

// IsInvalid reports whether an entry is INVALID. The index must be less than Len.
func (b Bits) IsInvalid(index int) bool { return b[index/8]&(1<<(index%8)) != 0 }

// SetAllInvalid makes all entries INVALID.
func (b Bits) SetAllInvalid() {
	for i := range b {
		b[i] = 0xff
	}
}

// Encode returns the "lst" member of the list: its bytes in the ZLIB format (RFC 1950), in base64url
// (section 4.1).
func (b Bits) Encode() string {
	var compressed bytes.Buffer
	w, err := zlib.NewWriterLevel(&compressed, zlib.BestCompression)
	if err != nil {
		panic(err) // The level is valid.
	}
	_, _ = w.Write(b) // A bytes.Buffer accepts everything.
	_ = w.Close()
	return base64.RawURLEncoding.EncodeToString(compressed.Bytes())
}

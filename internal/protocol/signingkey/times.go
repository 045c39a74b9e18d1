package signingkey

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// MaxLifetime is the longest lifetime of a token that the API allows.
const MaxLifetime = 24 * time.Hour

// WithoutFutureTimes returns the keys without times after now, rounded up to a second: such a time becomes now.
// Only a wrong clock, or someone with the credentials of the operator, writes one. With it, a Retiring key would
// be published for longer than its last token is valid, and another key would never be replaced.
func WithoutFutureTimes(now time.Time, keys []Key) []Key {
	now = timestamp.RoundUp(now.UTC())
	keys = slices.Clone(keys)
	for i := range keys {
		k := &keys[i]
		for _, at := range []*time.Time{&k.CreatedAt, &k.PublishedAt, &k.ActiveAt, &k.RetiredAt} {
			if at.After(now) {
				*at = now
			}
		}
	}
	return keys
}

package secrets

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

// stillRestored returns the restored secrets that are accepted in addition to the planned ones. They end when
// they expire, and when the client has no secret. They also end when the spec lists hashes: it contains
// everything that such a client accepts. Those that the plan contains are no longer restored: from now
// on, they end with the plan.
func (f *Facts) stillRestored(w Want, planned []record.ClientSecret, now time.Time) []record.ClientSecret {
	if w.Generated == nil && w.Provided == nil {
		return nil
	}
	return slices.DeleteFunc(Valid(f.Restored, now), func(restored record.ClientSecret) bool {
		return slices.ContainsFunc(planned, func(s record.ClientSecret) bool { return s.ID == restored.ID || s.Hash == restored.Hash })
	})
}

package realm

import (
	"context"
	"fmt"

	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// perform performs writes in their order, each on condition that what it was decided from hasn't changed, and
// stores the results in seen.
func perform(ctx context.Context, records *recordstore.Store, seen *observed, writes []write) error {
	for _, w := range writes {
		if w, ok := w.(putRecord); ok {
			written, err := records.Put(ctx, seen.record, w.secret)
			if err != nil {
				return fmt.Errorf("writing the record of Realm %q: %w", seen.realm.Name, err)
			}
			seen.record = written
		}
	}
	return nil
}

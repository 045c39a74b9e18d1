package realm

import (
	"context"
	"fmt"
)

// write performs writes in their order, each on condition that what it was decided from hasn't changed, and stores
// the results in seen.
func (r *Reconciler) write(ctx context.Context, seen *observed, writes []write) error {
	for _, w := range writes {
		if w, ok := w.(putRecord); ok {
			written, err := r.Records.Put(ctx, seen.record, w.secret)
			if err != nil {
				return fmt.Errorf("writing the record of Realm %q: %w", seen.realm.Name, err)
			}
			seen.record = written
		}
	}
	return nil
}

package realm

import (
	"context"
	"fmt"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// write writes the record, unless desired is nil, on condition that what it was decided from hasn't changed, and stores
// the result in seen.
func write(ctx context.Context, records *recordstore.Store, seen *observed, desired *corev1ac.SecretApplyConfiguration) error {
	if desired == nil {
		return nil
	}
	written, err := records.Put(ctx, seen.record, desired)
	if err != nil {
		return fmt.Errorf("writing the record of Realm %q: %w", seen.realm.Name, err)
	}
	seen.record = written
	return nil
}

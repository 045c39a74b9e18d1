package lastuse

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Observe adds or replaces an object, as the handlers of Watch do.
func (s *Store) Observe(object client.Object) {
	switch object := object.(type) {
	case *corev1.ConfigMap:
		s.setConfigMap(object)
	case *coordinationv1.Lease:
		s.SetLease(object)
	case *v1beta1.ApiClient:
		s.setClient(object)
	}
}

// Remove removes an object, as the handlers of Watch do.
func (s *Store) Remove(object client.Object) {
	switch object := object.(type) {
	case *corev1.ConfigMap:
		s.removeConfigMap(object)
	case *coordinationv1.Lease:
		s.RemoveLease(object.Name)
	case *v1beta1.ApiClient:
		s.removeClient(object)
	}
}

// Flush runs one pass. The manager runs one every second.
func (s *Store) Flush(ctx context.Context, c client.Client) {
	(&flusher{store: s, client: c}).flush(ctx)
}

package lastuse

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
)

// Confirm is like Quiet, but reads from the API server. live must not read from a cache. c is the
// ApiClient with the credential. ok is also false if the ApiClient was replaced or no longer has
// the credential.
//
// A use moves from its token server to a report, and from there to the status of its ApiClient.
// Confirm reads in the same order, so it can't miss a use that moves in the meantime.
func (s *Store) Confirm(ctx context.Context, live client.Reader, c *v1beta1.ApiClient, credential usage.Credential) (since, until time.Time, ok bool, err error) {
	f, now := newFacts(), s.now()
	leases := &coordinationv1.LeaseList{}
	if err := live.List(ctx, leases, client.InNamespace(s.namespace), client.MatchingLabels{heartbeat.Label: heartbeat.LabelValue}); err != nil {
		return time.Time{}, time.Time{}, false, fmt.Errorf("listing the heartbeat Leases: %w", err)
	}
	for i := range leases.Items {
		f.observeLease(&leases.Items[i], s.resolution, now)
	}
	reports := &corev1.ConfigMapList{}
	if err := live.List(ctx, reports, client.InNamespace(s.namespace), client.HasLabels{usage.Label}); err != nil {
		return time.Time{}, time.Time{}, false, fmt.Errorf("listing the usage reports: %w", err)
	}
	for i := range reports.Items {
		if err := s.confirmConfigMap(&f, &reports.Items[i], now); err != nil {
			return time.Time{}, time.Time{}, false, err
		}
	}
	current := &v1beta1.ApiClient{}
	if err := live.Get(ctx, client.ObjectKeyFromObject(c), current); err != nil {
		return time.Time{}, time.Time{}, false, fmt.Errorf("reading ApiClient %s: %w", client.ObjectKeyFromObject(c), err)
	}
	recorded, known := LastUsed(current, credential)
	if current.UID != c.UID || !known {
		return time.Time{}, time.Time{}, false, nil
	}
	// This process may know of a loss that is not persisted yet.
	s.mu.Lock()
	f.lose(s.facts.lost)
	s.mu.Unlock()
	since, until, ok = f.quiet(c.UID, credential, recorded, s.resolution, now)
	return since, until, ok, nil
}

func (s *Store) confirmConfigMap(f *facts, object *corev1.ConfigMap, now time.Time) error {
	if object.Labels[usage.Label] == usage.LabelValue {
		_, _ = f.observeReport(object, now) // The watch logs and counts rejected reports.
		return nil
	}
	if object.Name != StateName {
		return nil
	}
	persisted, err := parseState(object, now)
	if err != nil {
		return err
	}
	f.observeState(persisted, s.resolution, now)
	return nil
}

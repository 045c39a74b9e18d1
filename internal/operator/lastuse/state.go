package lastuse

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
)

// StateName is the name of the ConfigMap with the operator's own state. The value of its usage
// label differs from the value for reports.
const (
	StateName       = "usage"
	stateLabelValue = "operator"
	lostKey         = "lost"
	resolutionKey   = "resolution"
)

// state is what the operator must know after a restart.
type state struct {
	version    string // resource version of the ConfigMap; empty if it doesn't exist
	lost       time.Time
	resolution time.Duration
}

var (
	errState        = errors.New("invalid state")
	errUnknownState = errors.New("the persisted state of usage reports has not been read yet")
)

func parseState(object *corev1.ConfigMap, now time.Time) (*state, error) {
	s := &state{version: object.ResourceVersion}
	lost, err := time.Parse(time.RFC3339Nano, object.Data[lostKey])
	if err != nil {
		return s, fmt.Errorf("%w: %s: %w", errState, lostKey, err)
	}
	if lost.After(now.Add(maxSkew)) {
		return s, fmt.Errorf("%w: %s is in the future: %s", errState, lostKey, object.Data[lostKey])
	}
	resolution, err := time.ParseDuration(object.Data[resolutionKey])
	if err != nil {
		return s, fmt.Errorf("%w: %s: %w", errState, resolutionKey, err)
	}
	s.lost, s.resolution = lost, resolution
	return s, nil
}

// observeState adds the persisted state. If the state is missing or has another resolution, all
// uses before now may be missing.
func (f *facts) observeState(s *state, resolution time.Duration, now time.Time) {
	f.state = s
	if s.resolution != resolution {
		f.lose(now)
	}
	f.lose(s.lost)
}

// Lose records and persists that uses before a time may be missing.
func (s *Store) Lose(ctx context.Context, c client.Client, at time.Time) error {
	s.mu.Lock()
	s.facts.lose(s.roundUp(at))
	s.mu.Unlock()
	return s.persist(ctx, c)
}

// roundUp rounds up the time before which uses may be missing, so that it is written less often.
func (s *Store) roundUp(at time.Time) time.Time {
	unit := max(time.Second, min(time.Minute, s.resolution/60))
	return at.Add(unit - 1).Truncate(unit)
}

// persist writes the state if it has changed.
func (s *Store) persist(ctx context.Context, c client.Client) error {
	s.mu.Lock()
	persisted, lost := s.facts.state, s.facts.lost
	s.mu.Unlock()
	if persisted == nil {
		return errUnknownState
	}
	if persisted.version != "" && persisted.resolution == s.resolution && !lost.After(persisted.lost) {
		return nil
	}
	desired := corev1ac.ConfigMap(StateName, s.namespace).
		WithLabels(map[string]string{usage.Label: stateLabelValue, v1beta1.ManagedByLabel: v1beta1.ManagedBy}).
		WithData(map[string]string{lostKey: lost.UTC().Format(time.RFC3339Nano), resolutionKey: s.resolution.String()})
	if persisted.version != "" {
		desired.WithResourceVersion(persisted.version)
	}
	if err := c.Apply(ctx, desired, client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", s.namespace, StateName, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.facts.state == persisted {
		s.facts.state = &state{version: *desired.ResourceVersion, lost: lost, resolution: s.resolution}
	}
	return nil
}

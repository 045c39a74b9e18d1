// Package lastuse merges the token servers' reports of used credentials into the status of
// ApiClients. It also determines how long a credential has certainly been unused.
//
// A report is a ConfigMap in the records namespace. A token server adds uses to it, and the
// operator deletes it after the status of ApiClients shows all of its uses. Each use is therefore
// in the memory of a token server, in a report, or in a status. Uses can still be lost, for example
// if a token server is killed. The operator then records the time of the loss, and treats every
// credential as used until that time.
package lastuse

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
)

// maxSkew is the maximum tolerated difference between the clocks of the operator and a token
// server. Beyond it, the operator does not trust the times that the server reports.
const maxSkew = 5 * time.Minute

// Store holds the reports that the status of ApiClients doesn't show yet. It is safe for concurrent
// use.
type Store struct {
	// Grants reconciles an ApiClient when its status may be written because of uses.
	Grants queue.Source

	namespace  string
	resolution time.Duration
	now        func() time.Time
	rejected   func(metrics.RejectionReason)
	synced     []func() bool // set by Watch; each returns true after all existing objects were processed

	mu    sync.Mutex
	facts facts
	// unshown contains, for each report, the uses that the status of their client may lack.
	unshown map[string]map[types.UID]*unshownUses
	// clients are the cached ApiClients. They are shared with the cache, so they must not be changed.
	clients map[types.UID]*v1beta1.ApiClient
	// granted contains the clients whose status may be written only because of uses, with the time of
	// the grant in the current period. The time is zero after the status was written.
	granted map[types.UID]time.Time
	period  time.Time
}

// New returns an empty store for the reports in namespace. resolution is the unit to which times of
// use are truncated. The store calls rejected for each report that it ignores, and for each token
// server whose clock is wrong.
func New(namespace string, resolution time.Duration, now func() time.Time, rejected func(metrics.RejectionReason)) *Store {
	s := &Store{
		namespace: namespace, resolution: resolution, now: now, rejected: rejected,
		facts:   newFacts(),
		unshown: map[string]map[types.UID]*unshownUses{},
		clients: map[types.UID]*v1beta1.ApiClient{},
		granted: map[types.UID]time.Time{},
	}
	s.Grants.Synced = s.isSynced
	return s
}

// Quiet returns the period in which a credential has certainly not been used. The period is empty
// unless since is before until. It ends at the time up to which all token servers have reported
// their uses. It never begins before the oldest running token server started, because workloads may
// have had no token server before that. recorded is the last use of the credential according to the
// status of its ApiClient, or zero. ok is false as long as the period is not known.
//
// The result comes from caches, which can lag. Callers must use Confirm before they revoke access.
func (s *Store) Quiet(client types.UID, credential usage.Credential, recorded time.Time) (since, until time.Time, ok bool) {
	if !s.isSynced() {
		return time.Time{}, time.Time{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts.quiet(client, credential, recorded, s.resolution, s.now())
}

// Uses returns the uses of a client's credentials in all reports.
func (s *Store) Uses(client types.UID) Uses {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts.uses(client)
}

// Granted reports whether the status of a client may be written only because of uses.
func (s *Store) Granted(client types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.granted[client].IsZero()
}

// Written ends the grant of a client whose status was written.
func (s *Store) Written(client types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, granted := s.granted[client]; granted {
		s.granted[client] = time.Time{}
	}
}

func (s *Store) isSynced() bool {
	for _, synced := range s.synced {
		if !synced() {
			return false
		}
	}
	return true
}

package trustedissuers

import (
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

// SetLease implements acknowledgement.Observer. It requests keys for a token server that asks for them in its
// Lease, once: a request that is still in the Lease with the next heartbeat is the same one.
func (f *Fetcher) SetLease(lease *coordinationv1.Lease) {
	requests := heartbeat.ParseRefresh(lease)
	f.mu.Lock()
	before := f.requested[lease.Name]
	if f.requested[lease.Name] = requests; len(requests) == 0 {
		delete(f.requested, lease.Name)
	}
	f.mu.Unlock()
	for _, r := range requests {
		if !slices.Contains(before, r) {
			f.Request(r.Realm, r.Issuer)
		}
	}
}

// RemoveLease implements acknowledgement.Observer.
func (f *Fetcher) RemoveLease(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.requested, name)
}

package feed

import (
	"sync"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

const (
	// requestInterval is the minimum time between two requests for the keys of one issuer, so that a
	// flood of tokens with unknown keys causes few writes. The operator fetches keys as often.
	requestInterval = time.Minute
	// requestRetention is how long a request stays in the heartbeat, so that an operator that starts
	// meanwhile finds it.
	requestRetention = 2 * time.Minute
)

// keyRequests holds the requests for keys of trusted issuers. There is at most one for each issuer of
// each realm.
type keyRequests struct {
	mu sync.Mutex
	at map[issuer]time.Time
}

type issuer struct{ realm, name string }

// add reports whether it adds a request.
func (k *keyRequests) add(i issuer, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last, ok := k.at[i]; ok && !now.Before(last) && now.Sub(last) < requestInterval {
		return false
	}
	k.at[i] = now
	return true
}

// current returns the requests for the heartbeat.
func (k *keyRequests) current(now time.Time) []heartbeat.Refresh {
	k.mu.Lock()
	defer k.mu.Unlock()
	var requests []heartbeat.Refresh
	for i, at := range k.at {
		if now.Sub(at) >= requestRetention {
			delete(k.at, i)
			continue
		}
		requests = append(requests, heartbeat.Refresh{Realm: i.realm, Issuer: i.name, At: at})
	}
	return requests
}

// RequestKeys asks the operator for the keys of a trusted issuer of a realm, at most once a minute.
// The request is part of the heartbeat. RequestKeys doesn't wait for it.
func (f *Feed) RequestKeys(realm, name string) {
	if f.requests.add(issuer{realm, name}, f.Now()) {
		f.Logger.Info("Requested the keys of an issuer after a token with an unknown key ID", "realm", realm, "issuer", name)
		f.progress.notify()
	}
}

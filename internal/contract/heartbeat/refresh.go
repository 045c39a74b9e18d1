package heartbeat

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// RefreshAnnotation contains the requests of a server for the keys of trusted issuers. It is absent
// if there are none.
const RefreshAnnotation = "auth.realmkeeper.dev/refresh-issuers"

// MaxRefreshes is the maximum number of requests in a Lease.
const MaxRefreshes = 64

// Refresh is a request to fetch the keys of a trusted issuer, because the server has got a token with
// an unknown key ID.
type Refresh struct {
	Realm, Issuer string // the names of the Realm and of the issuer in it
	// At is the time of the request on the server's clock, in whole milliseconds. It distinguishes
	// requests and is never compared with another clock.
	At time.Time
}

// encodeRefreshes returns the value of RefreshAnnotation for the latest requests, sorted by name. It
// is empty if there are none.
func encodeRefreshes(requests []Refresh) string {
	latest := slices.SortedFunc(slices.Values(requests), func(a, b Refresh) int { return b.At.Compare(a.At) })
	latest = latest[:min(len(latest), MaxRefreshes)]
	slices.SortFunc(latest, func(a, b Refresh) int {
		return cmp.Or(cmp.Compare(a.Realm, b.Realm), cmp.Compare(a.Issuer, b.Issuer), a.At.Compare(b.At))
	})
	encoded := make([]string, 0, len(latest))
	for _, r := range latest {
		encoded = append(encoded, fmt.Sprintf("%s/%s=%d", r.Realm, r.Issuer, r.At.UnixMilli()))
	}
	return strings.Join(encoded, ",")
}

// ParseRefresh returns the requests in a Lease, at most MaxRefreshes. It skips invalid ones: a
// Lease that requests nonsense is still a heartbeat.
func ParseRefresh(lease *coordinationv1.Lease) []Refresh {
	value := lease.Annotations[RefreshAnnotation]
	if value == "" {
		return nil
	}
	var requests []Refresh
	for _, part := range strings.SplitN(value, ",", MaxRefreshes+1) {
		if len(requests) == MaxRefreshes {
			break
		}
		names, at, _ := strings.Cut(part, "=")
		realm, issuer, _ := strings.Cut(names, "/")
		millis, err := strconv.ParseInt(at, 10, 64)
		if err != nil || realm == "" || issuer == "" {
			continue
		}
		requests = append(requests, Refresh{Realm: realm, Issuer: issuer, At: time.UnixMilli(millis).UTC()})
	}
	return requests
}

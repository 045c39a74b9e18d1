package instance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// grace is how long a token server may lag and still is Current. Token servers usually load a change within
// a second, and would otherwise be Behind after each one.
const grace = 10 * time.Second

// maxServers is the maximum number of token servers in the status.
const maxServers = 64

// server is a token server in the status, and the reason for which it keeps the instance from being Ready.
type server struct {
	v1beta1.TokenServerStatus
	reason v1beta1.ConditionReason // empty if it doesn't
	// next is the time at which the state changes without a change of the server; zero if it doesn't.
	next time.Time
}

func (s server) live() bool {
	return s.State == v1beta1.TokenServerCurrent || s.State == v1beta1.TokenServerBehind
}

// describe returns the state of a token server. Messages contain no times that change, because an instance in
// which nothing happens must not cause writes.
func describe(known *acknowledgement.Server, now time.Time) server {
	s := server{TokenServerStatus: v1beta1.TokenServerStatus{Name: known.Name, Version: known.Software}}
	lagging := !known.Lagging.IsZero()
	switch {
	case known.Renewed.IsZero():
		s.State, s.Message = v1beta1.TokenServerStale, "Its heartbeat Lease is invalid. Changes do not wait for it."
	case known.Dead:
		s.State, s.Message = v1beta1.TokenServerStale, "It does not renew its heartbeat Lease. Changes do not wait for it."
		s.HeartbeatTime = &metav1.Time{Time: known.Renewed.Truncate(time.Second)}
	case known.Version == "":
		s.State = v1beta1.TokenServerStarting
	case len(known.Unreadable) > 0:
		s.State, s.reason = v1beta1.TokenServerBehind, v1beta1.ReasonRecordsNotLoaded
		s.Message = "It cannot read or enforce these records: " + names(known.Unreadable) + ". Its log says which ones it serves in their last readable version, and which ones it rejects."
	case lagging && now.Before(known.Lagging.Add(grace)):
		s.State, s.next = v1beta1.TokenServerCurrent, known.Lagging.Add(grace)
	case lagging && len(known.UndecryptedActive) > 0:
		s.State, s.reason = v1beta1.TokenServerBehind, v1beta1.ReasonKMSUnavailable
		s.Message = "It has not decrypted the active signing keys of these realms, so their clients get no tokens from it: " + names(known.UndecryptedActive) + "."
	case lagging:
		s.State, s.reason, s.Message = v1beta1.TokenServerBehind, v1beta1.ReasonProgressing, "It has not loaded the latest records."
	default:
		s.State = v1beta1.TokenServerCurrent
	}
	return s
}

// listed returns the token servers for the status, sorted by name. If there are too many, those that are not
// Current are kept.
func listed(servers []server) []v1beta1.TokenServerStatus {
	kept := make([]v1beta1.TokenServerStatus, 0, len(servers))
	for _, current := range []bool{false, true} {
		for _, s := range servers {
			if current == (s.State == v1beta1.TokenServerCurrent) && len(kept) < maxServers {
				kept = append(kept, s.TokenServerStatus)
			}
		}
	}
	slices.SortFunc(kept, func(a, b v1beta1.TokenServerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return kept
}

// maxName limits the length of a name in a message, because names in heartbeats are what the token server wrote.
const maxName = 100

// names joins the first names of a heartbeat.
func names(all []string) string {
	if slices.Contains(all, heartbeat.All) {
		return fmt.Sprintf("more than %d", heartbeat.MaxNames)
	}
	shown := slices.Clone(all)
	for i, name := range shown {
		if len(name) > maxName {
			shown[i] = strings.ToValidUTF8(name[:maxName], "") + "..."
		}
	}
	return condition.Names(shown)
}

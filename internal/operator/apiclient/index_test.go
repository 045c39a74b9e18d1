package apiclient

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
)

// A client that waits for an index is reconciled again when it can get one. Nothing reports that another client
// has released one, so it looks regularly, even if that should have happened already.
func TestWaitingForIndexEnds(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	facts := statusindex.Facts{Serial: 2, Retention: time.Hour, Held: []record.Index{{Serial: 1, RetiredAt: at.Add(-time.Minute)}}}
	for waiting, want := range map[statusindex.Reason]time.Duration{
		statusindex.ClientFull: 59 * time.Minute, statusindex.NamespaceFull: recheckInterval, statusindex.RealmFull: recheckInterval, "": 59 * time.Minute,
	} {
		seen := &observed{request: request{at: at}, indexSet: indexSet{index: facts, namespaceRelease: at.Add(-time.Second)}}
		if got := nextIndexChange(seen, statusindex.Plan{Waiting: waiting}).Sub(at); got != want {
			t.Errorf("waiting for %q: reconciled after %s, want %s", waiting, got, want)
		}
	}
}

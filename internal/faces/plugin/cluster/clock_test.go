package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
)

// The clock of the user's machine may be wrong by years.
func TestTimesComeFromTheAPIServer(t *testing.T) {
	server := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	response := &http.Response{Header: http.Header{"Date": {server.Format(http.TimeFormat)}}}
	got, err := cluster.NextSecondAfter(response)
	if err != nil || !got.After(server) || got.Sub(server) > time.Hour || got.Nanosecond() != 0 {
		t.Errorf("Time is %s, %v, want a full second soon after %s", got, err, server)
	}
	// A proxy may remove the header.
	before := time.Now()
	if got, err := cluster.NextSecondAfter(&http.Response{}); err != nil || got.Before(before) {
		t.Errorf("Time is %s, %v, want one after %s", got, err, before)
	}
}

package apiclient

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
)

// The first status waits for the token servers, but not for long. All others are written immediately.
func TestFirstStatusDelay(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		observedGeneration int64
		state              acknowledgement.State
		unrecorded         bool
		after              time.Duration
		want               time.Duration
	}{
		"new client":            {-1, acknowledgement.Waiting, false, time.Second, 4 * time.Second},
		"no default":            {0, acknowledgement.Waiting, false, time.Second, 4 * time.Second},
		"new client, confirmed": {-1, acknowledgement.Acknowledged, false, time.Second, 0},
		"no token server":       {-1, acknowledgement.NoServer, false, time.Second, 0},
		"slow token servers":    {-1, acknowledgement.Waiting, false, 5 * time.Second, 0},
		"clock is behind":       {-1, acknowledgement.Waiting, false, -time.Hour, 5 * time.Second},
		"changed client":        {1, acknowledgement.Waiting, false, time.Second, 0},
		"no record":             {-1, acknowledgement.Waiting, true, time.Second, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.ApiClient{Status: v1alpha1.ApiClientStatus{ObservedGeneration: test.observedGeneration}}
			done := applied{state: &test.state, created: created}
			if test.unrecorded {
				done = applied{}
			}
			if got := firstStatusDelay(c, done, created.Add(test.after)); max(got, 0) != test.want {
				t.Errorf("firstStatusDelay() = %s, want %s", got, test.want)
			}
		})
	}
}

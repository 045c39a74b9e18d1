package describe_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
)

// Times of uses are truncated to an hour, so the text names no shorter unit.
func TestLastUse(t *testing.T) {
	used := metav1.NewTime(time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC))
	hours := func(at, now time.Time) string { return now.Sub(at).String() }
	for after, want := range map[time.Duration]string{
		0: "this hour", 49 * time.Minute: "this hour", time.Hour - 1: "this hour",
		time.Hour: "1h0m0s", 2*time.Hour - 1: "1h0m0s", 2 * time.Hour: "2h0m0s", 50*time.Hour + time.Minute: "50h0m0s",
		-time.Minute: "this hour", // The clock of the server that recorded the use is ahead.
	} {
		if got := describe.LastUse(&used, used.Add(after), hours); got != want {
			t.Errorf("The last use %s ago is %q, want %q", after, got, want)
		}
	}
	if got := describe.LastUse(nil, used.Time, hours); got != "never" {
		t.Errorf("No use is %q, want never", got)
	}
}

package portal_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal"
)

var timelineNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func in(d time.Duration) *metav1.Time { return &metav1.Time{Time: timelineNow.Add(d)} }

func TestKeyTimeline(t *testing.T) {
	const hour = time.Hour
	key := func(id string, state v1beta1.SigningKeyState, created time.Duration, active, remove *metav1.Time) v1beta1.SigningKeyStatus {
		return v1beta1.SigningKeyStatus{KeyID: id, State: state, CreationTime: *in(created), ActivationTime: active, RemovalTime: remove}
	}
	tests := map[string]struct {
		keys []v1beta1.SigningKeyStatus
		next *metav1.Time
		want []string
	}{
		"a key takes over": {
			keys: []v1beta1.SigningKeyStatus{
				key("second", v1beta1.SigningKeyActive, -2*hour, in(-hour), nil),
				key("first", v1beta1.SigningKeyRetiring, -3*hour, in(-2*hour), in(hour)),
			},
			want: []string{
				"first · Retiring: pending 0-24 active 24-49 retiring 49-98",
				"second · Active: pending 24-49 active 49-100", "now 73",
			},
		},
		"the removal isn't scheduled": {
			keys: []v1beta1.SigningKeyStatus{
				key("first", v1beta1.SigningKeyRetiring, -2*hour, in(-2*hour), nil),
				key("second", v1beta1.SigningKeyActive, -hour, in(-hour), nil),
			},
			want: []string{
				"first · Retiring: pending 0-1 active 0-44 retiring 44-100",
				"second · Active: pending 44-45 active 44-100", "now 89",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status := &v1beta1.RealmStatus{SigningKeys: tc.keys, NextKeyTransitionTime: tc.next}
			if got := describeTimeline(t, portal.KeyTimeline(status, timelineNow)); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// describeTimeline returns the rows of a timeline with positions in whole percent.
func describeTimeline(t *testing.T, line *portal.Timeline) (rows []string) {
	t.Helper()
	if line == nil {
		return nil
	}
	percent := func(s string) float64 {
		value, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
		if err != nil || value < 0 || value > 100 {
			t.Errorf("Position %q isn't a percentage", s)
		}
		return value
	}
	for _, row := range line.Rows {
		text := []string{row.Name + ":"}
		for _, bar := range row.Bars {
			text = append(text, fmt.Sprintf("%s %.0f-%.0f", bar.Kind, percent(bar.X), percent(bar.X)+percent(bar.Width)))
		}
		rows = append(rows, strings.Join(text, " "))
	}
	return append(rows, fmt.Sprintf("now %.0f", percent(line.Now)))
}

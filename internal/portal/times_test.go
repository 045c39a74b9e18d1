package portal_test

import (
	"html/template"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/internal/portal"
)

func TestRelative(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		0:                               "less than a minute ago",
		29 * time.Second:                "less than a minute ago",
		30 * time.Second:                "1 minute ago",
		59*time.Minute + 29*time.Second: "59 minutes ago",
		59*time.Minute + 30*time.Second: "1 hour ago",
		89 * time.Minute:                "1 hour ago",
		90 * time.Minute:                "2 hours ago",
		23*time.Hour + 29*time.Minute:   "23 hours ago",
		23*time.Hour + 30*time.Minute:   "1 day ago",
		90 * day:                        "90 days ago",
		100 * day:                       "3 months ago",
		2 * 365 * day:                   "2 years ago",
		-time.Second:                    "in less than a minute",
		-24*time.Hour + time.Second:     "in 1 day",
		-300 * day:                      "in 10 months",
	} {
		if got := portal.Relative(now.Add(-ago), now); got != want {
			t.Errorf("%s ago is %q, want %q", ago, got, want)
		}
	}
	if got := portal.Relative(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), now); got != "in 292 years" {
		t.Errorf("The longest duration is shown as %q", got)
	}
}

func TestTimesShowExactTimeOnHover(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	at := func(ago time.Duration) *metav1.Time {
		return &metav1.Time{Time: now.Add(-ago).In(time.FixedZone("", 3600))}
	}
	for name, tc := range map[string]struct{ got, want template.HTML }{
		"relative":        {portal.RelativeTime(at(2*time.Hour), now), `<time datetime="2026-03-04T03:06:07Z" title="2026-03-04 03:06 UTC">2 hours ago</time>`},
		"relative, unset": {portal.RelativeTime(nil, now), ""},
		"exact":           {portal.ExactTime(at(2 * time.Hour)), `<time datetime="2026-03-04T03:06:07Z">2026-03-04 03:06 UTC</time>`},
		"exact, unset":    {portal.ExactTime(&metav1.Time{}), ""},
		"use in this period": {
			portal.UseTime(at(7*time.Second), now),
			`<time datetime="2026-03-04T05:06:00Z" title="In the period from 2026-03-04 05:06 UTC">less than an hour ago</time>`,
		},
		"earlier use": {portal.UseTime(at(time.Hour), now), `<time datetime="2026-03-04T04:06:07Z" title="In the period from 2026-03-04 04:06 UTC">1 hour ago</time>`},
		"no use":      {portal.UseTime(nil, now), "Never"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q, want %q", name, tc.got, tc.want)
		}
	}
}

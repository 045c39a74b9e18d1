package portal

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// timeline is a diagram of the signing keys of a realm or the secrets of a client. All positions are
// percentages of the width, so that the text keeps its size on small screens.
type timeline struct {
	// Label describes the diagram to screen readers, which don't read its parts.
	Label      string
	Rows       []timelineRow
	Now        string
	NowAnchor  string // alignment of the label of Now
	Start, End time.Time
	// Height is the height in pixels. Bottom is the end of the rows, and Axis the position of the text
	// below them.
	Height, Bottom, Axis int
	Legend               []legendEntry
}

// legendEntry explains a style.
type legendEntry struct{ Kind, Title string }

// timelineRow is a row with the bars of one key or secret.
type timelineRow struct {
	Name string
	// TextY and BarY are positions in pixels.
	TextY, BarY int
	Bars        []timelineBar
	// Used is the position of the last use, or empty. UsedAt is its time.
	Used   string
	UsedAt time.Time
	UsedY  int
}

// timelineBar is a period in a row.
type timelineBar struct {
	// Kind is pending, active, retiring or expired. It selects the style.
	Kind     string
	X, Width string
	Title    string
}

// lane is the input for a row. Its periods are in order, and each one starts when the previous one
// ends.
type lane struct {
	name    string
	periods []period
	used    time.Time // zero if unknown
}

// period is the time during which a key or secret has a state. If to is zero, the end is unknown.
type period struct {
	kind, title string
	from, to    time.Time
}

// Dimensions of a timeline in pixels, and the minimum width of a bar in percent.
const (
	timelineTop    = 24
	timelineRowGap = 48
	minBarWidth    = 0.6
)

// drawTimeline returns the diagram of the lanes, or nil if there are none. next is the time of the
// next planned change, or zero.
func drawTimeline(label string, lanes []lane, next, now time.Time) *timeline {
	if len(lanes) == 0 {
		return nil
	}
	start, end := timelineWindow(lanes, next, now)
	percent := func(at time.Time) float64 {
		return min(max(100*float64(at.Sub(start))/float64(end.Sub(start)), 0), 100)
	}
	t := &timeline{Label: label, Start: start, End: end, Now: formatPercent(percent(now)), NowAnchor: "middle"}
	switch x := percent(now); {
	case x < 15:
		t.NowAnchor = "start"
	case x > 85:
		t.NowAnchor = "end"
	}
	explain := func(e legendEntry) {
		if !slices.Contains(t.Legend, e) {
			t.Legend = append(t.Legend, e)
		}
	}
	for k, l := range lanes {
		row := timelineRow{Name: l.name, TextY: timelineTop + k*timelineRowGap + 18}
		row.BarY, row.UsedY = row.TextY+8, row.TextY+15
		for _, p := range l.periods {
			to := p.to
			if to.IsZero() {
				to = end
			}
			x := min(percent(p.from), 100-minBarWidth)
			width := max(percent(to)-x, minBarWidth)
			explain(legendEntry{p.kind, p.title})
			row.Bars = append(row.Bars, timelineBar{Kind: p.kind, X: formatPercent(x), Width: formatPercent(width), Title: p.title})
		}
		if !l.used.IsZero() && !l.used.Before(start) {
			row.Used, row.UsedAt = formatPercent(percent(l.used)), l.used
		}
		t.Rows = append(t.Rows, row)
	}
	if slices.ContainsFunc(t.Rows, func(r timelineRow) bool { return r.Used != "" }) {
		explain(legendEntry{"used", "Last used"})
	}
	t.Bottom = timelineTop + len(lanes)*timelineRowGap
	t.Axis, t.Height = t.Bottom+14, t.Bottom+20
	return t
}

// timelineWindow returns the times at the edges of the diagram. If a change is ahead, the past is at
// most three times as long as the future, because a long past would make short periods around the
// next change invisible. The diagram always shows some of the past, so that Now isn't at the edge.
func timelineWindow(lanes []lane, next, now time.Time) (start, end time.Time) {
	start, end = now, now
	if next.After(end) {
		end = next
	}
	for _, l := range lanes {
		for _, p := range l.periods {
			if p.from.Before(start) {
				start = p.from
			}
			if p.to.After(end) {
				end = p.to
			}
		}
	}
	past, future := max(now.Sub(start), time.Minute), end.Sub(now)
	if future < time.Minute {
		return now.Add(-past), now.Add(past / 8)
	}
	return now.Add(-min(max(past, future/6), 3*future)), end.Add(future / 10)
}

func formatPercent(p float64) string { return strconv.FormatFloat(p, 'f', 2, 64) + "%" }

// keyTimeline returns the diagram of a realm's signing keys, oldest first.
func keyTimeline(s *v1beta1.RealmStatus, now time.Time) *timeline {
	keys := slices.Clone(s.SigningKeys)
	slices.SortFunc(keys, func(a, b v1beta1.SigningKeyStatus) int {
		return cmp.Or(a.CreationTime.Compare(b.CreationTime.Time), cmp.Compare(a.KeyID, b.KeyID))
	})
	lanes := make([]lane, 0, len(keys))
	for k, key := range keys {
		l := lane{name: shorten(key.KeyID, 10) + " · " + string(key.State)}
		pendingUntil := now
		if key.ActivationTime != nil {
			pendingUntil = key.ActivationTime.Time
		} else if s.NextKeyTransitionTime != nil {
			pendingUntil = s.NextKeyTransitionTime.Time
		}
		l.periods = append(l.periods, period{kind: "pending", title: "Pending", from: key.CreationTime.Time, to: pendingUntil})
		if key.ActivationTime != nil {
			active := period{kind: "active", title: "Active", from: key.ActivationTime.Time}
			if key.State == v1beta1.SigningKeyRetiring {
				active.to = replacedAt(keys[k+1:], key.ActivationTime.Time, now)
			}
			l.periods = append(l.periods, active)
			if key.State == v1beta1.SigningKeyRetiring {
				retiring := period{kind: "retiring", title: "Retiring", from: active.to}
				if key.RemovalTime != nil {
					retiring.to = key.RemovalTime.Time
				}
				l.periods = append(l.periods, retiring)
			}
		}
		lanes = append(lanes, l)
	}
	var next time.Time
	if s.NextKeyTransitionTime != nil {
		next = s.NextKeyTransitionTime.Time
	}
	return drawTimeline("Timeline of the signing keys. The table below has the same data.", lanes, next, now)
}

// replacedAt returns the time at which the first of the newer keys became active.
func replacedAt(newer []v1beta1.SigningKeyStatus, after, now time.Time) time.Time {
	for _, key := range newer {
		if key.ActivationTime != nil && key.ActivationTime.After(after) {
			return key.ActivationTime.Time
		}
	}
	return now // unknown
}

// secretTimeline returns the diagram of a client's secrets in the given order. next is the time of
// the next rotation, or zero.
func secretTimeline(secrets []secretView, next, now time.Time) *timeline {
	var lanes []lane
	for _, s := range secrets {
		if s.Created == nil {
			continue // token servers haven't loaded it
		}
		l := lane{name: shorten(s.ID, 24)}
		p := period{kind: "active", title: "Valid", from: s.Created.Time}
		switch {
		case s.Expires == nil:
			l.name += " · Valid"
		case s.Expired:
			l.name += " · Expired"
			p.kind, p.title, p.to = "expired", "Expired", s.Expires.Time
		default:
			l.name += " · Expires"
			p.kind, p.title, p.to = "retiring", "Valid until its expiration", s.Expires.Time
		}
		l.periods = []period{p}
		if s.Used != nil {
			l.used = s.Used.Time
		}
		lanes = append(lanes, l)
	}
	return drawTimeline("Timeline of the secrets. The table below has the same data.", lanes, next, now)
}

// shorten returns at most count characters of s.
func shorten(s string, count int) string {
	if r := []rune(s); len(r) > count {
		return string(r[:count]) + "…"
	}
	return s
}

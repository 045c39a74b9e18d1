package portal

import (
	"html/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
)

// exactLayout is the layout of exact times. They are in UTC, because the server doesn't know the
// user's time zone.
const exactLayout = "2006-01-02 15:04 UTC"

// relativeTime returns a time element such as "2 hours ago" with the exact time as its title. It
// returns nothing if t is zero.
func relativeTime(t *metav1.Time, now time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	return timeElement(t.Time, t.UTC().Format(exactLayout), relative(t.Time, now))
}

// exactTime returns a time element such as "2026-11-22 19:14 UTC", for texts in which a relative
// time would be wrong or too coarse. It returns nothing if t is zero.
func exactTime(t *metav1.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	return timeElement(t.Time, "", t.UTC().Format(exactLayout))
}

// useTime returns a time element for the last use of a credential. t is the start of a period of at
// least one hour in which the credential was used.
func useTime(t *metav1.Time, now time.Time) template.HTML {
	if t.IsZero() {
		return "Never"
	}
	return timeElement(t.Time, "In the period from "+t.UTC().Format(exactLayout), describe.LastUse(t, now, relative))
}

// timeElement returns a time element. The texts must contain no user input.
func timeElement(t time.Time, title, text string) template.HTML {
	if title != "" {
		title = ` title="` + title + `"`
	}
	//nolint:gosec // Formatted times contain no user input.
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `"` + title + `>` + text + `</time>`)
}

// units are the units of relative times. Each unit is used for counts up to most. Days are used for
// up to three months, because the lifetimes of credentials are usually given in days.
var units = []struct {
	length time.Duration
	name   string
	most   int64
}{
	{time.Minute, "minute", 59}, {time.Hour, "hour", 23}, {day, "day", 99}, {365 * day / 12, "month", 23}, {365 * day, "year", 1000},
}

const day = 24 * time.Hour

// relative describes t relative to now, rounded to one unit, such as "2 hours ago" or "in 3 days".
func relative(t, now time.Time) string {
	distance := now.Sub(t).Abs()
	text := ""
	for _, u := range units {
		count := int64(distance.Round(u.length) / u.length)
		if count > u.most {
			continue
		}
		text = plural(int(count), u.name)
		if count == 0 {
			text = "less than a " + u.name
		}
		break
	}
	if t.After(now) {
		return "in " + text
	}
	return text + " ago"
}

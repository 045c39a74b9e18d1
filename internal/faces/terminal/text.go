package terminal

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// Wrap splits text into lines of at most width columns at spaces. A longer word gets a line of its
// own.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(untrusted.Printable(text)) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Relative formats a time relative to now, such as "5m ago" or "in 3d". The zero time is "never".
func Relative(at, now time.Time) string {
	switch d := now.Sub(at); {
	case at.IsZero():
		return "never"
	case d == math.MinInt64:
		return "in more than 292y" // the longest duration
	case d < 0:
		return "in " + duration.HumanDuration(-d)
	default:
		return duration.HumanDuration(d) + " ago"
	}
}

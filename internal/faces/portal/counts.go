package portal

import (
	"strconv"
	"time"
)

// formatCount formats a number with thousands separators.
func formatCount(count int) string {
	s := strconv.Itoa(count)
	for k := len(s) - 3; k > 0; k -= 3 {
		s = s[:k] + "," + s[k:]
	}
	return s
}

// plural returns a count with a noun, such as "1 day" or "2,000 days".
func plural(count int, noun string) string {
	if count != 1 {
		noun += "s"
	}
	return formatCount(count) + " " + noun
}

// formatPeriod formats a period, in days if it is a whole number of them.
func formatPeriod(d time.Duration) string {
	if d%day != 0 {
		return d.Round(time.Minute).String()
	}
	return plural(int(d/day), "day")
}

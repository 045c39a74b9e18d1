package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
)

// day is a unit of --older and --expires-in that time.ParseDuration doesn't support.
const day = 24 * time.Hour

// ParseAge parses the value of a flag, a duration that can also be given in days.
func ParseAge(flag, s string) (time.Duration, error) {
	age, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		age = time.Duration(min(max(n, 0), 100_000)) * day
	}
	if err != nil || age <= 0 {
		return 0, fmt.Errorf("%w: --%s must be a positive duration such as 90d or 36h, got %q", output.ErrUsage, flag, s)
	}
	return age, nil
}

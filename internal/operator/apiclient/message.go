package apiclient

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

func notReady(reason v1beta1.ConditionReason, format string, args ...any) *condition.Result {
	result := condition.NotReady(reason, fmt.Sprintf(format, args...))
	return &result
}

// maxListed is the maximum number of names in a message. The API server limits the length of
// messages.
const maxListed = 5

// enumerate joins up to maxListed names and appends the number of names that it omits.
func enumerate(names []string) string {
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}

// difference returns the strings in a that are not in b, sorted.
func difference(a, b []string) []string {
	missing := slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	slices.Sort(missing)
	return missing
}

func timestamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func timeOrNil(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	return &metav1.Time{Time: at.Truncate(time.Second)}
}

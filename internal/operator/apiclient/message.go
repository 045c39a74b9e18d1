package apiclient

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

func notReady(reason v1beta1.ConditionReason, format string, args ...any) *condition.Result {
	result := condition.NotReady(reason, fmt.Sprintf(format, args...))
	return &result
}

// difference returns the strings in a that are not in b, sorted.
func difference(a, b []string) []string {
	missing := slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	slices.Sort(missing)
	return missing
}

func timeOrNil(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	return &metav1.Time{Time: at.Truncate(time.Second)}
}

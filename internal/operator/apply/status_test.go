package apply_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// The status is written at most once in 5 seconds. The time of the last write is that of the API server, in
// whole seconds.
func TestStatusPause(t *testing.T) {
	now := time.Date(2031, time.May, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		written time.Duration // before now
		want    time.Duration // zero if the status may be written
	}{
		"long ago":                        {time.Hour, 0},
		"exactly long enough ago":         {6 * time.Second, 0},
		"less than that":                  {5 * time.Second, time.Second},
		"now":                             {0, 6 * time.Second},
		"the API server's clock is ahead": {-time.Hour, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			entry := metav1.ManagedFieldsEntry{
				Manager: v1beta1.FieldOwner, Operation: metav1.ManagedFieldsOperationApply, Subresource: "status", Time: &metav1.Time{Time: now.Add(-test.written)},
			}
			created := metav1.ManagedFieldsEntry{Manager: v1beta1.FieldOwner, Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: now}}
			instance := &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{created, entry}}}
			testkit.Diff(t, "delay", test.want, apply.StatusPause(instance, now))
		})
	}
	if delay := apply.StatusPause(&v1beta1.Instance{}, now); delay > 0 {
		t.Errorf("the first write waits for %s", delay)
	}
}

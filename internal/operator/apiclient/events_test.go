package apiclient

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
)

func TestRotated(t *testing.T) {
	at := func(last *metav1.Time, ids ...string) v1alpha1.ApiClientStatus {
		s := v1alpha1.ApiClientStatus{LastRotationTime: last}
		for _, id := range ids {
			s.Secrets = append(s.Secrets, v1alpha1.ClientSecretStatus{ID: id})
		}
		return s
	}
	first, second := metav1.NewTime(now), metav1.NewTime(now.Add(time.Second))
	of := func(note string) *notice.Event {
		return &notice.Event{Type: "Normal", Reason: "SecretRotated", Action: "Rotate", Note: note}
	}
	for name, test := range map[string]struct {
		before, after v1alpha1.ApiClientStatus
		want          *notice.Event
	}{
		"the first secret":             {at(nil), at(nil, "a"), nil},
		"a pending secret":             {at(nil, "a"), at(nil, "a", "b"), nil},
		"the pending secret is active": {at(nil, "a", "b"), at(&first, "a", "b"), of("Client secret rotated. The active secret is now b. Secret a stays valid until it expires; see status.secrets.")},
		"the overlap ended":            {at(&first, "a", "b"), at(&first, "b"), nil},
		"the next rotation":            {at(&first, "b", "c"), at(&second, "b", "c"), of("Client secret rotated. The active secret is now c. Secret b stays valid until it expires; see status.secrets.")},
		"a rotation without overlap":   {at(&first, "b"), at(&second, "c"), of("Client secret rotated. The active secret is now c.")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, rotated(&test.before, &test.after)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOldSecretUsed(t *testing.T) {
	at := func(status metav1.ConditionStatus, id string, used time.Time) v1alpha1.ApiClientStatus {
		s := v1alpha1.ApiClientStatus{Secrets: []v1alpha1.ClientSecretStatus{{ID: id}, {ID: "new"}}}
		if !used.IsZero() {
			s.Secrets[0].LastUsedTime = &metav1.Time{Time: used}
		}
		if status != "" {
			s.Conditions = []metav1.Condition{{Type: "OldSecretInUse", Status: status, Message: "used"}}
		}
		return s
	}
	late := time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		before, after v1alpha1.ApiClientStatus
		want          bool
	}{
		"not used":                {at("", "a", now), at("", "a", late), false},
		"not known":               {at("", "a", now), at(metav1.ConditionUnknown, "a", now), false},
		"used for the first time": {at("", "a", now), at(metav1.ConditionTrue, "a", now), true},
		"known to be used":        {at(metav1.ConditionUnknown, "a", now), at(metav1.ConditionTrue, "a", now), true},
		"used again that day":     {at(metav1.ConditionTrue, "a", now), at(metav1.ConditionTrue, "a", late), false},
		"used the next day":       {at(metav1.ConditionTrue, "a", late), at(metav1.ConditionTrue, "a", late.Add(time.Hour)), true},
		"the day of UTC counts":   {at(metav1.ConditionTrue, "a", late), at(metav1.ConditionTrue, "a", late.Add(time.Hour-1).In(time.FixedZone("", 7200))), false},
		"no longer used":          {at(metav1.ConditionTrue, "a", now), at("", "a", now), false},
		"another secret":          {at(metav1.ConditionTrue, "a", now), at(metav1.ConditionTrue, "b", now), true},
	} {
		t.Run(name, func(t *testing.T) {
			var want *notice.Event
			if test.want {
				want = &notice.Event{Type: "Warning", Reason: "OldSecretInUse", Action: "Rotate", Note: "used"}
			}
			if diff := cmp.Diff(want, oldSecretUsed(&test.before, &test.after)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

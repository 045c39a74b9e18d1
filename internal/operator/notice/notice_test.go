package notice_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
)

func ready(status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) []metav1.Condition {
	return []metav1.Condition{
		{Type: string(v1alpha1.ConditionProgrammed), Status: "True", Reason: string(v1alpha1.ReasonReady), Message: "Not this one."},
		{Type: string(v1alpha1.ConditionReady), Status: status, Reason: string(reason), Message: message},
	}
}

var (
	fine  = ready("True", v1alpha1.ReasonReady, "Fine.")
	waits = ready("Unknown", v1alpha1.ReasonProgressing, "Wait.")
	ended = ready("False", v1alpha1.ReasonSuspended, "As you wish.")
)

func TestOfReady(t *testing.T) {
	told := func(kind string, reason v1alpha1.ConditionReason, note string) *notice.Event {
		return &notice.Event{Type: kind, Reason: v1alpha1.EventReason(reason), Action: v1alpha1.EventActionReconcile, Note: note}
	}
	for name, test := range map[string]struct {
		was  v1alpha1.ConditionReason
		now  []metav1.Condition
		want *notice.Event
	}{
		"a new object waits":      {"", waits, nil},
		"a new object is done":    {"", fine, told("Normal", v1alpha1.ReasonReady, "Fine.")},
		"nothing changes":         {v1alpha1.ReasonReady, fine, nil},
		"it has to wait":          {v1alpha1.ReasonReady, waits, nil},
		"a decision":              {v1alpha1.ReasonReady, ended, told("Normal", v1alpha1.ReasonSuspended, "As you wish.")},
		"it is taken back":        {v1alpha1.ReasonSuspended, fine, told("Normal", v1alpha1.ReasonReady, "Fine.")},
		"an end by time":          {v1alpha1.ReasonReady, ready("False", v1alpha1.ReasonExpired, "Over."), told("Warning", v1alpha1.ReasonExpired, "Over.")},
		"a fault":                 {v1alpha1.ReasonReady, ready("False", v1alpha1.ReasonScopeNotInRealm, "Look."), told("Warning", v1alpha1.ReasonScopeNotInRealm, "Look.")},
		"one fault after another": {v1alpha1.ReasonExpired, ready("False", v1alpha1.ReasonScopeNotInRealm, "Look."), told("Warning", v1alpha1.ReasonScopeNotInRealm, "Look.")},
		"no word on Ready":        {v1alpha1.ReasonReady, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, notice.ReadyChange(test.was, test.now)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A note is as long as the API server allows.
func TestNoteIsCut(t *testing.T) {
	for name, test := range map[string]struct {
		note, want string
	}{
		"just allowed":           {strings.Repeat("é", 512), strings.Repeat("é", 512)},
		"too long":               {"!" + strings.Repeat("é", 512), "!" + strings.Repeat("é", 510) + "..."},
		"cut within a character": {strings.Repeat("é", 513), strings.Repeat("é", 510) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			rotation, change := notice.Rotation(v1alpha1.EventSecretRotated, test.note), notice.ReadyChange("", ready("False", v1alpha1.ReasonExpired, test.note))
			if rotation.Note != test.want || change.Note != test.want {
				t.Errorf("told is %q and %q, want %q", rotation.Note, change.Note, test.want)
			}
		})
	}
}

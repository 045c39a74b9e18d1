package portal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/portal"
)

// Every condition and every reason of the API has words.
func TestEveryReasonHasWords(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/condition_types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		kind, _ := spec.Type.(*ast.Ident)
		literal, _ := spec.Values[0].(*ast.BasicLit)
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		switch kind.Name {
		case "ConditionReason":
			if portal.ReasonWords[v1alpha1.ConditionReason(value)] == "" {
				t.Errorf("The reason %s has no words", value)
			}
		case "ConditionType":
			if portal.ConditionWords[v1alpha1.ConditionType(value)] == "" {
				t.Errorf("The condition %s has no words", value)
			}
		}
		return true
	})
	if found < 20 {
		t.Errorf("Only %d constants were found", found)
	}
}

func TestStateOf(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: string(v1alpha1.ConditionReady), Status: status, Reason: string(reason), Message: message, ObservedGeneration: 2}}
	}
	tests := map[string]struct {
		conditions []metav1.Condition
		generation int64
		want       portal.State
	}{
		"nobody has looked yet": {nil, 1, portal.State{Word: portal.StateWorking, Kind: "busy", Why: "The operator hasn't seen the last change yet."}},
		"a change is new":       {ready(metav1.ConditionTrue, v1alpha1.ReasonReady, ""), 3, portal.State{Word: portal.StateWorking, Kind: "busy", Why: "The operator hasn't seen the last change yet."}},
		"ready":                 {ready(metav1.ConditionTrue, v1alpha1.ReasonReady, "All well."), 2, portal.State{Word: portal.StateReady, Kind: "good"}},
		"working":               {ready(metav1.ConditionUnknown, v1alpha1.ReasonProgressing, "Waiting."), 2, portal.State{Word: portal.StateWorking, Kind: "busy", Why: "Waiting."}},
		"suspended":             {ready(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "x"), 2, portal.State{Word: portal.StateSuspended, Kind: "off", Why: portal.ReasonWords[v1alpha1.ReasonSuspended]}},
		"expired":               {ready(metav1.ConditionFalse, v1alpha1.ReasonExpired, "x"), 2, portal.State{Word: portal.StateExpired, Kind: "off", Why: portal.ReasonWords[v1alpha1.ReasonExpired]}},
		"a fault": {
			ready(metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, "Realm x doesn't exist."), 2,
			portal.State{Word: portal.StateFault, Kind: "bad", Why: "Its realm doesn't exist. It goes on as soon as somebody makes the realm. Realm x doesn't exist."},
		},
		"a fault of a newer operator": {ready(metav1.ConditionFalse, "Unheard", "It says."), 2, portal.State{Word: portal.StateFault, Kind: "bad", Why: "It says."}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, portal.StateOf(tc.conditions, tc.generation)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A cursor comes from an address that anybody can write.
func TestParseCursor(t *testing.T) {
	for typed, want := range map[string]string{
		"": "", "7.abc": "7.abc", "0.abc": "0.abc", "12.": "12.", "-1.abc": "", "501.abc": "", "x.abc": "", "7": "", "7.a.b": "7.a.b",
	} {
		if got := portal.ParseCursor(typed).String(); got != want {
			t.Errorf("%q is read as %q, want %q", typed, got, want)
		}
	}
}

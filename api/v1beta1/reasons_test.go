package v1beta1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

func TestEveryReasonIsExplained(t *testing.T) {
	file := testkit.Value(parser.ParseFile(token.NewFileSet(), "condition_types.go", nil, 0))(t)
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, _ := spec.Type.(*ast.Ident); kind == nil || kind.Name != "ConditionReason" {
			return true
		}
		value := testkit.Value(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
		found++
		if e, ok := ConditionReason(value).Explain(); !ok || e.Severity == "" || !strings.HasSuffix(e.Cause, ".") {
			t.Errorf("The explanation of %s is incomplete: %+v", value, e)
		}
		return true
	})
	if found != len(Reasons()) {
		t.Errorf("Found %d constants for %d explanations", found, len(Reasons()))
	}
	if got := ConditionReason("FromNewerOperator").Severity(); got != SeverityError {
		t.Errorf("The severity of an unknown reason is %s", got)
	}
}

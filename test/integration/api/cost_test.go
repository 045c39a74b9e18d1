package api_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The API server rejects a CRD with a higher estimated cost (StaticEstimatedCostLimit and
// StaticEstimatedCRDCostLimit in its package validation).
const (
	ruleCostLimit = 10_000_000
	crdCostLimit  = 100_000_000
)

// TestCostOfRules prints the estimated cost of each CRD's rules, in the worst case that the sizes in
// the schema allow. Estimates change with the version of the API server, so this test fails above
// half of a limit.
func TestCostOfRules(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			costs := costsOf(t, node{schema: schemaOf(t, kind)}, 1)
			slices.SortStableFunc(costs, func(a, b ruleCost) int { return cmp.Compare(b.cost, a.cost) })
			total := 0.0
			for _, c := range costs {
				total += c.cost
				switch percent := 100 * c.cost / ruleCostLimit; {
				case percent > 50:
					t.Errorf("%s: %.1f%% of the limit for a rule, want at most 50%%: %s", c.path, percent, c.expression)
				case percent >= 1:
					t.Logf("%s: %.1f%% of the limit for a rule: %.60s", c.path, percent, c.expression)
				}
			}
			percent := 100 * total / crdCostLimit
			t.Logf("All %d rules and messages: %.1f%% of the limit for a CRD", len(costs), percent)
			if percent > 50 || len(costs) == 0 {
				t.Errorf("Got %.1f%% of the limit for a CRD, want at most 50%%", percent)
			}
		})
	}
}

// ruleCost is the estimated cost of a rule, or of the expression for its message.
type ruleCost struct {
	path, expression string
	cost             float64
}

// costsOf returns the costs of the rules of n and of all nodes below it. An object has at most the
// given number of values for n.
func costsOf(t *testing.T, n node, number float64) []ruleCost {
	t.Helper()
	var costs []ruleCost
	for i, result := range compile(t, n) {
		rule := n.schema.XValidations[i]
		if result.Error != nil || result.MessageExpressionError != nil {
			t.Fatalf("%s: %v, %v", n.path, result.Error, result.MessageExpressionError)
		}
		costs = append(costs, ruleCost{n.path, rule.Rule, number * float64(result.MaxCost)})
		if rule.MessageExpression != "" {
			costs = append(costs, ruleCost{n.path, rule.MessageExpression, float64(result.MessageExpressionMaxCost)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.schema.Properties)) {
		costs = append(costs, costsOf(t, node{strings.TrimPrefix(n.path+"."+name, "."), n.schema.Properties[name]}, number)...)
	}
	if n.schema.Items != nil {
		costs = append(costs, costsOf(t, node{n.path + "[]", *n.schema.Items.Schema}, number*limit(n.schema.MaxItems))...)
	}
	if n.schema.AdditionalProperties != nil {
		costs = append(costs, costsOf(t, node{n.path + "[]", *n.schema.AdditionalProperties.Schema}, number*limit(n.schema.MaxProperties))...)
	}
	return costs
}

// limit returns the maximum size of a list or map.
func limit(size *int64) float64 {
	if size == nil {
		return math.Inf(1)
	}
	return float64(*size)
}

// compile compiles the rules of n like the API server, which estimates their costs.
func compile(t *testing.T, n node) []cel.CompilationResult {
	t.Helper()
	if len(n.schema.XValidations) == 0 {
		return nil
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&n.schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	schema, err := structural.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	declared := model.SchemaDeclType(schema, n.path == "")
	environments := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := cel.Compile(schema, declared, celconfig.PerCallLimit, environments, cel.NewExpressionsEnvLoader())
	if err != nil {
		t.Fatal(err)
	}
	return results
}

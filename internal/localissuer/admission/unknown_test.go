package admission_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/internal/localissuer/admission"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

func TestUnknown(t *testing.T) {
	rules := testkit.Value(admission.Load())(t)
	for name, tc := range map[string]struct {
		object string
		want   []string
	}{
		"another case":  {"{kind: ApiClient, spec: {clientId: a}}", []string{"spec.clientId does not exist. Did you mean clientID?"}},
		"a part":        {"{kind: Realm, spec: {limits: {tokensPerSecond: 1}}}", []string{"spec.limits.tokensPerSecond does not exist. Did you mean tokensPerSecondPerServer?"}},
		"in a list":     {"{kind: Realm, spec: {grants: [{}, {clientIds: []}]}}", []string{"spec.grants[1].clientIds does not exist. Did you mean clientIDs?"}},
		"nothing alike": {"{kind: Realm, spec: {grants: [{namespaces: {all: {}}}]}}", []string{"spec.grants[0].namespaces.all does not exist. The fields of spec.grants[0].namespaces are: from, names, selector."}},
		"two":           {"{kind: ApiClient, spec: {federatedIdentities: [], tokensValidAfter: a}}", []string{"spec.federatedIdentities does not exist. Did you mean identities?", "spec.tokensValidAfter does not exist. Did you mean tokensValidAfterTime?"}},
		"none":          {"{kind: ApiClient, spec: {clientID: a, suspend: true}}", nil},
		"another kind":  {"{kind: Deployment, spec: {x: 1}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			testkit.Do(t, yaml.Unmarshal([]byte(tc.object), &obj.Object))
			obj.SetAPIVersion("auth.realmkeeper.dev/v1beta1")
			before := obj.DeepCopy()
			testkit.Diff(t, "unknown fields", tc.want, rules.Unknown(obj))
			testkit.Diff(t, "the object", before, obj)
		})
	}
}

package unknownfields_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/unknownfields"
)

func TestDescribe(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		want   []string
	}{
		"another case":  {"{kind: ApiClient, spec: {clientId: a}}", []string{"spec.clientId does not exist. Did you mean clientID?"}},
		"a part":        {"{kind: Realm, spec: {limits: {tokensPerSecond: 1}}}", []string{"spec.limits.tokensPerSecond does not exist. Did you mean tokensPerSecondPerServer?"}},
		"in a list":     {"{kind: Realm, spec: {grants: [{}, {clientIds: []}]}}", []string{"spec.grants[1].clientIds does not exist. Did you mean clientIDs?"}},
		"another shape": {"{kind: Realm, spec: {grants: [{namespaces: {all: {}}}]}}", []string{"spec.grants[0].namespaces.all does not exist. Did you mean from: All?"}},
		"two":           {"{kind: ApiClient, spec: {federatedIdentities: [], tokensValidAfter: a}}", []string{"spec.federatedIdentities does not exist. List them in identities, such as identities: [{name: ci, issuer: github, subject: ...}].", "spec.tokensValidAfter does not exist. Did you mean tokensValidAfterTime?"}},
		"only case":     {"{kind: Realm, spec: {trustedIssuers: [{keys: {jwksUri: a}}]}}", []string{"spec.trustedIssuers[0].keys.jwksUri does not exist. Did you mean jwksURI?"}},
		"not alike":     {"{kind: Realm, spec: {limits: {rate: 1}}}", []string{"spec.limits.rate does not exist. The fields of spec.limits are: tokensPerSecondPerServer."}},
		"a list":        {"{kind: Realm, spec: {trustedIssuers: [{requiredClaims: {a: b, c: d}}]}}", []string{"spec.trustedIssuers[0].requiredClaims must be a list, not an object."}},
		"a string":      {"{kind: ApiClient, spec: {publicKeys: [{jwk: {kty: EC}}]}}", []string{"spec.publicKeys[0].jwk must be of type string, not an object."}},
		"at the root":   {"{kind: Realm, specs: {}}", []string{"specs does not exist. Did you mean spec?"}},
		"no field":      {"{kind: ApiClient, x: {}}", []string{"x does not exist. The fields of the object are: apiVersion, kind, metadata, spec, status."}},
		"in a map":      {"{kind: ApiClient, spec: {secret: {generated: {keys: {client_id: ID}, template: {labels: {x: y}}}}}}", nil},
		"metadata":      {"{kind: Realm, metadata: {other: 1}}", nil},
		"none":          {"{kind: ApiClient, spec: {clientID: a, suspend: true}}", nil},
		"another kind":  {"{kind: Deployment, spec: {x: 1}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			testkit.Do(t, yaml.Unmarshal([]byte(tc.object), &obj.Object))
			obj.SetAPIVersion("auth.realmkeeper.dev/v1beta1")
			before := obj.DeepCopy()
			testkit.Diff(t, "unknown fields", tc.want, unknownfields.Describe(obj))
			testkit.Diff(t, "the object", before, obj)
		})
	}
}

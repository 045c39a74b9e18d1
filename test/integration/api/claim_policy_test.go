package api_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The documented policy limits a claim to the label of the namespace.
func TestClaimPolicy(t *testing.T) {
	cluster := env.Start(t)
	policy, binding := documentedClaimPolicy(t)
	namespace := func(labels map[string]string) string {
		created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "claims-", Labels: labels}}
		if err := cluster.Client.Create(t.Context(), created); err != nil {
			t.Fatal(err)
		}
		return created.Name
	}
	acme, unlabeled := namespace(map[string]string{"acme.example/tenant": "acme"}), namespace(nil)
	// Other tests use the same API server.
	binding.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{acme, unlabeled}}},
	}}
	for _, object := range []client.Object{policy, binding} {
		if err := cluster.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	create := func(namespace string, claims v1beta1.Claims) error {
		c := install.ApiClient(namespace, "billing", "acme", func(c *v1beta1.ApiClient) { c.Spec.Claims = claims })
		return cluster.Client.Create(t.Context(), c, client.DryRunAll)
	}
	tenant := func(name string) v1beta1.Claims { return v1beta1.Claims{{Name: "tenant", String: name}} }
	install.Eventually(t, "the policy to take effect", func() error {
		if err := create(acme, tenant("other")); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("a client with the claim of another tenant was not forbidden"), err)
		}
		return nil
	})
	for name, test := range map[string]struct {
		namespace string
		claims    v1beta1.Claims
		allowed   bool
	}{
		"own tenant":                  {acme, tenant("acme"), true},
		"no claims":                   {acme, nil, true},
		"other claims":                {unlabeled, v1beta1.Claims{{Name: "plan", String: "gold"}}, true},
		"another tenant":              {acme, append(v1beta1.Claims{{Name: "plan", String: "gold"}}, tenant("other")...), false},
		"list":                        {acme, v1beta1.Claims{{Name: "tenant", Strings: []string{"acme"}}}, false},
		"namespace without the label": {unlabeled, tenant("acme"), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := create(test.namespace, test.claims)
			if test.allowed && err != nil || !test.allowed && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "acme.example/tenant")) {
				t.Errorf("got error %v, want allowed: %t", err, test.allowed)
			}
		})
	}
}

// documentedClaimPolicy returns the policy and its binding in the documentation.
func documentedClaimPolicy(t *testing.T) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "claims.md"))
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(content), "```yaml\n") {
		manifests, _, _ := strings.Cut(block, "```")
		if !strings.Contains(manifests, "kind: ValidatingAdmissionPolicy\n") {
			continue
		}
		policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
		decoder := yaml.NewYAMLOrJSONDecoder(io.NopCloser(bytes.NewReader([]byte(manifests))), 4096)
		if err := errors.Join(decoder.Decode(policy), decoder.Decode(binding)); err != nil || binding.Spec.PolicyName != policy.Name {
			t.Fatalf("policy %q, binding of policy %q: %v", policy.Name, binding.Spec.PolicyName, err)
		}
		return policy, binding
	}
	t.Fatal("docs/claims.md has no policy")
	return nil, nil
}

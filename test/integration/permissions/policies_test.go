package permissions_test

import (
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

var errUnchecked = errors.New("the expressions have not been checked")

// TestPoliciesAreWellTyped checks that Kubernetes finds no mistake in the policies' expressions. A
// mistake, such as a misspelt field, would only show when an expression is evaluated.
func TestPoliciesAreWellTyped(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{ProtectRealms: true})
	install.Eventually(t, "the type check of the policies", func() error {
		policies := &admissionregistrationv1.ValidatingAdmissionPolicyList{}
		if err := cluster.Client.List(t.Context(), policies); err != nil {
			return err
		}
		checked := 0
		for i := range policies.Items {
			p := &policies.Items[i]
			if !strings.HasSuffix(p.Name, "."+inst.Namespace) {
				continue
			}
			checked++
			if p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil {
				return errUnchecked
			}
			for _, warning := range p.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", p.Name, warning.FieldRef, warning.Warning)
			}
		}
		if want := 4; checked != want {
			t.Errorf("got %d policies, want %d", checked, want)
		}
		return nil
	})
}

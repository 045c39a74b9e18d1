package clients_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// The tokens of each token server have the claims of the realm and of the client, and changes apply
// to new tokens.
func testFixedClaims(t *testing.T, inst *install.Installation) {
	realm, c := scenario.NewClient(t, inst, "claims")
	credentials := inst.CredentialsSecret(t, c)
	awaitClaims(t, inst, credentials, nil)

	install.Change(t, inst, realm, func(r *v1beta1.Realm) {
		r.Spec.Claims = v1beta1.Claims{{Name: "tier", String: "gold"}}
		r.Spec.AllowedClaims = []v1beta1.ClaimName{"tenant", "seats", "regions"}
	})
	awaitClaims(t, inst, credentials, map[string]any{"tier": "gold"})

	install.Change(t, inst, c, func(c *v1beta1.ApiClient) {
		c.Spec.Claims = v1beta1.Claims{
			{Name: "tenant", String: `acme "<&>"` + "\r\n\u2028ä"}, {Name: "seats", Integer: new(int64)}, {Name: "regions", Strings: []string{"eu", "us"}},
		}
	})
	awaitClaims(t, inst, credentials, map[string]any{
		"tier": "gold", "tenant": `acme "<&>"` + "\r\n\u2028ä", "seats": 0.0, "regions": []any{"eu", "us"},
	})
	scenario.AwaitUsable(t, inst, c)

	// A claim that the realm no longer allows stops the client until it is removed.
	install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.AllowedClaims = []v1beta1.ClaimName{"tenant"} })
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonClaimNotInRealm)
	scenario.ExpectMessage(t, c, v1beta1.ConditionAccepted, "regions, seats", "spec.allowedClaims", `"claims"`)
	inst.AwaitTokens(t, credentials, false)
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Claims = v1beta1.Claims{{Name: "tenant", String: "acme"}} })
	awaitClaims(t, inst, credentials, map[string]any{"tier": "gold", "tenant": "acme"})
}

// awaitClaims waits until the tokens of each token server have these claims in addition to those of
// every token.
func awaitClaims(t *testing.T, inst *install.Installation, credentials *corev1.Secret, want map[string]any) {
	t.Helper()
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		install.Eventually(t, "the claims of tokens from "+s.Name, func() error {
			a, err := install.RequestToken(t, s, httpClient, credentials)
			if err != nil {
				return err
			}
			got := map[string]any{}
			if err := install.Claims(a.AccessToken, &got); err != nil {
				return fmt.Errorf("status %d %s: %w", a.Status, a.Error, err)
			}
			maps.DeleteFunc(got, func(name string, _ any) bool {
				return slices.Contains(v1beta1.ReservedClaims, name)
			})
			if diff := cmp.Diff(want, got); len(want)+len(got) > 0 && diff != "" {
				return errors.New("claims (-want +got):\n" + diff)
			}
			return nil
		})
	}
}

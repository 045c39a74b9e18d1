package clients_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A client or its grant can require DPoP. Tokens without it are no longer valid then.
func testDPoP(t *testing.T, inst *install.Installation) {
	realm, c := scenario.NewClient(t, inst, "dpop")
	credentials := inst.CredentialsSecret(t, c)
	unbound := inst.AccessToken(t, credentials)
	inst.AwaitValid(t, realm.Name, unbound, true)

	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.SenderConstraint = v1beta1.SenderConstraintDPoP })
	awaitProofRequired(t, inst, credentials, true)
	inst.AwaitValid(t, realm.Name, unbound, false)
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.SenderConstraint = "" })
	awaitProofRequired(t, inst, credentials, false)
	install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.Grants[0].SenderConstraint = v1beta1.SenderConstraintDPoP })
	awaitProofRequired(t, inst, credentials, true)
	inst.AwaitValid(t, realm.Name, unbound, false)
}

var errResponse = errors.New("unexpected response")

// awaitProofRequired waits until every token server requires a proof of the client, or until none
// does.
func awaitProofRequired(t *testing.T, inst *install.Installation, credentials *corev1.Secret, required bool) {
	t.Helper()
	want := install.TokenResponse{Status: http.StatusOK}
	if required {
		want = install.TokenResponse{Status: http.StatusBadRequest, Error: "invalid_dpop_proof"}
	}
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		install.Eventually(t, fmt.Sprintf("%s to require a proof: %t", s.Name, required), func() error {
			got, err := install.RequestToken(t, s, httpClient, credentials)
			if err == nil && (got.Status != want.Status || got.Error != want.Error) {
				err = fmt.Errorf("%w: %d %s", errResponse, got.Status, got.Error)
			}
			return err
		})
	}
}

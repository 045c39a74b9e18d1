package permissions_test

import (
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// RBAC can't restrict creation to a name.
func testOperatorWritesOnlyItsTrustBundle(t *testing.T, s *site) {
	inst, operator := s.inst, s.operator
	own := &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: key("", tokenservice.TrustBundleName(inst.Namespace))}
	install.Eventually(t, "the ClusterTrustBundle", func() error {
		return inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(own), own)
	})
	bundle := func(name, signer string) *certificatesv1beta1.ClusterTrustBundle {
		return &certificatesv1beta1.ClusterTrustBundle{
			ObjectMeta: key("", name), Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: own.Spec.TrustBundle},
		}
	}
	want := func(name string) string {
		return deniedByPolicy + "The Realmkeeper operator must not create ClusterTrustBundle " + name + "."
	}
	sibling := own.Name + "-2"
	deny(t, operator, map[string]attempt{
		"create a bundle without a signer":    {create(bundle("another", "")), want("another")},
		"create another bundle of its signer": {create(bundle(sibling, tokenservice.TrustBundleSigner)), want(sibling)},
		"create a bundle of another signer":   {create(bundle("example.com:ca:a", "example.com/ca")), "user not permitted to attest for signerName"},
	})

	inst.StopOperator(t) // It would restore the bundle.
	inst.Delete(t, own)
	if err := operator.Create(t.Context(), bundle(own.Name, tokenservice.TrustBundleSigner)); err != nil {
		t.Errorf("Failed to create the ClusterTrustBundle: %v", err)
	}
}

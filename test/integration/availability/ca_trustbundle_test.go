package availability_test

import (
	"fmt"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The ClusterTrustBundle always contains the same certificates as the ConfigMap: from the beginning,
// during a renewal, and after a user has changed it.
func TestClusterTrustBundle(t *testing.T) {
	s := newSite(t, medium, true)
	s.start(t, "", 0)
	s.awaitTrustBundle(t, 1)

	s.renewNow(t)
	s.awaitTrustBundle(t, 2)

	bundle := &certificatesv1beta1.ClusterTrustBundle{}
	bundle.Name = tokenservice.TrustBundleName(s.Namespace)
	other := string(s.newCA(t, s.lifetime).Certificate)
	install.Change(t, s.Installation, bundle, func(b *certificatesv1beta1.ClusterTrustBundle) { b.Spec.TrustBundle = other })
	s.awaitTrustBundle(t, 2)
}

// awaitTrustBundle waits until the ConfigMap and the ClusterTrustBundle contain the same certificates, of
// the given number of CAs.
func (s *site) awaitTrustBundle(t *testing.T, total int) {
	t.Helper()
	install.Eventually(t, "the ClusterTrustBundle", func() error {
		bundle := &certificatesv1beta1.ClusterTrustBundle{}
		if err := s.Env.Client.Get(t.Context(), client.ObjectKey{Name: tokenservice.TrustBundleName(s.Namespace)}, bundle); err != nil {
			return err
		}
		got, err := pki.Parse([]byte(bundle.Spec.TrustBundle))
		if err != nil {
			return err
		}
		if want := s.bundle(t); len(got) != total || len(want) != total || !sameSet(got, want) {
			return fmt.Errorf("it contains %v, want the %d certificates in the ConfigMap, %v", names(got), total, names(want))
		}
		if bundle.Spec.SignerName != "auth.realmkeeper.dev/ca" {
			return fmt.Errorf("the signer is %q", bundle.Spec.SignerName)
		}
		return nil
	})
}

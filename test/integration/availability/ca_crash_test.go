//go:build nightly

package availability_test

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The operator is killed before or after each write of a renewal takes effect. The next operator
// continues, no connection fails, and the CA that was published signs at the end.
func TestOperatorKilledAtEachWrite(t *testing.T) {
	written := []string{
		"/secrets/" + authority.SecretName, "/secrets/" + pki.ServingSecretName, "/configmaps/" + tokenservice.BundleName, "/secrets/billing",
	}
	// A write that is lost before it takes effect is made again.
	faults := []install.Fault{install.ResponseLost, install.RequestLost, install.NoFault}
	l := medium
	l.overlap = 30 * time.Second // While operators are killed, clients get the next CA late.
	s := newSite(t, l, false)
	clients := s.start(t, "", 2, "billing")
	load := s.connect(t, s.following(t, clients[0], 0), s.following(t, clients[0], 0.5))
	s.StopOperator(t)
	s.makeDue(t)

	var kubeconfig string
	proxy := s.StartFaultProxy(t, install.Faults{
		Of: func(w install.Write) install.Fault {
			if !slices.ContainsFunc(written, func(object string) bool { return strings.HasSuffix(w.Path, object) }) {
				return install.NoFault
			}
			return faults[w.ToPath%len(faults)]
		},
		Then: func(install.Write) { s.KillAndRestartOperatorWith(t, kubeconfig) },
	})
	kubeconfig = s.KubeconfigFor(t, proxy.URL)
	s.StartOperator(t, kubeconfig)

	old, next := s.awaitNext(t)
	to := s.awaitSwitch(t, old)
	if !to.Equal(next) {
		t.Errorf("%s signs, want the published %s", to.Subject, next.Subject)
	}
	s.awaitServed(t, next)
	s.awaitBundle(t, []*x509.Certificate{old, next}, clients...)
	load.stop(t)
	s.wantTokens(t, clients)
	for _, object := range written {
		if !slices.ContainsFunc(proxy.Failed(), func(failed string) bool { return strings.HasSuffix(failed, object) }) {
			t.Errorf("no write of %s failed: %q", object, proxy.Failed())
		}
	}
	t.Logf("The operator was killed at %d writes: %q", len(proxy.Failed()), proxy.Failed())
}

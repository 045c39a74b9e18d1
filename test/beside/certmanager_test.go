//go:build beside

package beside_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// TestCertManager lets cert-manager issue and renew the certificate of the chart, while a client requests tokens.
func TestCertManager(t *testing.T) {
	if !selected(t, certManagerHeading) {
		return
	}
	cluster := env.Start(t)
	crds := filepath.Join(env.Module(t, "github.com/cert-manager/cert-manager"), "deploy", "crds")
	if _, err := envtest.InstallCRDs(cluster.Config, envtest.CRDInstallOptions{Paths: []string{crds}, ErrorIfPathMissing: true, MaxTime: time.Minute}); err != nil {
		t.Fatal(err)
	}
	const secret = "realmkeeper-tls" // the default of the chart
	i := install.New(t, cluster, install.Settings{TLSSecret: secret})
	u := setup{section: readSection(t, certManagerPage, certManagerHeading), dir: t.TempDir()}
	start := func() *process.Process {
		return u.start(t, process.Command{Name: "certmanager", Path: built("certmanager"), Args: []string{"-kubeconfig", cluster.Kubeconfig}}, func() error { return nil })
	}
	manager := start()
	cluster.Kubectl(t, "apply", "--namespace", i.Namespace, "--filename", u.write(t, "issuer.yaml", u.block(t, "yaml")))
	// The Certificate is renewed 20 seconds after it was issued.
	_, values, _ := strings.Cut(u.block(t, "console"), "--reuse-values ")
	render := append([]string{
		"tool", "-modfile=../../hack/tools/helm/go.mod", "helm.sh/helm/v4/cmd/helm", "template", "realmkeeper", "../../charts/realmkeeper",
		"--namespace", i.Namespace, "--kube-version", version.NewestKubernetes, "--show-only", "templates/certificate.yaml",
		"--set", "instance.domain=" + install.Domain + ",tls.certManager.duration=1h,tls.certManager.renewBefore=3580s",
	}, strings.Fields(values)...)
	certificate, err := exec.CommandContext(t.Context(), "go", render...).Output()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "apply", "--filename", u.write(t, "certificate.yaml", string(certificate)))

	i.Create(t, install.Realm("acme", func(r *v1beta1.Realm) { r.Spec.Scopes = []string{"orders.read"} }))
	c := install.ApiClient(cluster.Namespace(t), "orders", "acme", func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"orders.read"} })
	i.Create(t, c)
	i.StartOperator(t, "")
	i.StartTokenServer(t)
	i.MountServingCertificate(t)
	i.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	served := watchCertificates(t, i)
	prober := scenario.StartProber(t, i)
	prober.Watch("orders", scenario.MountedCredentials(i, c))

	seen := map[string]string{}
	result := func(name string) { seen[name] = cond(t.Failed(), "fail", "succeed") }
	eventually(t, time.Minute, "the first certificate", func() bool { return served() > 0 })
	result("first certificate")
	eventually(t, 3*time.Minute, "three certificates", func() bool { return served() >= 3 })
	result("renewed certificate")
	if err := manager.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
	time.Sleep(outage)
	result("cert-manager down")
	before := served()
	start()
	eventually(t, 3*time.Minute, "another certificate", func() bool { return served() > before })
	result("cert-manager restarted")
	prober.Stop(t)
	if diff := gocmp.Diff(u.outcomes("Event"), seen); diff != "" {
		t.Errorf("(-docs/works-with/%s +seen):\n%s", certManagerPage, diff)
	}
}

// watchCertificates connects to the token server all the time, and returns a function that returns how many different
// keys its certificates had.
func watchCertificates(t *testing.T, i *install.Installation) func() int {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(i.CABundle(t))
	var mu sync.Mutex
	keys := map[string]bool{}
	var running sync.WaitGroup
	running.Go(func() {
		for ticker := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-t.Context().Done():
				return
			case <-ticker.C:
			}
			connection, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", i.Servers()[0].Address, &tls.Config{RootCAs: roots, ServerName: "api." + install.Domain, MinVersion: tls.VersionTLS12})
			if err != nil {
				if t.Context().Err() == nil {
					t.Error(err)
				}
				continue
			}
			mu.Lock()
			keys[string(connection.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)] = true
			mu.Unlock()
			connection.Close()
		}
	})
	t.Cleanup(running.Wait)
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(keys)
	}
}

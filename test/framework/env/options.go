package env

import (
	"fmt"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// Option configures the control plane of a test binary.
type Option func(*options)

type options struct {
	raceDetector      bool
	controllerManager bool
	snapshots         bool
	auditLog          bool
	externalIssuers   bool
	proxy             string
	featureGates      []string
	apis              []string
	authentication    []byte
	scheme            *runtime.Scheme
	crds              []string
	ownCRDs           bool // crds replaces the default CRDs
}

func newOptions(opts []Option) *options {
	o := &options{}
	for _, apply := range opts {
		apply(o)
	}
	if o.scheme == nil {
		o.scheme = runtime.NewScheme()
		utilruntime.Must(clientgoscheme.AddToScheme(o.scheme))
		utilruntime.Must(apiextensionsv1.AddToScheme(o.scheme))
		utilruntime.Must(v1beta1.AddToScheme(o.scheme))
	}
	return o
}

// WithRaceDetector makes the tests run binaries with the race detector if make has built them. They need
// several times the processor time and the memory, so only suites in which much happens at the same
// time run them.
func WithRaceDetector() Option {
	return func(o *options) { o.raceDetector = true }
}

// WithNightlyRaceDetector is WithRaceDetector for the tests with the build tag nightly. For each change,
// faults, rotation and availability run the same programs with the race detector.
func WithNightlyRaceDetector() Option {
	return func(o *options) { o.raceDetector = nightly }
}

// WithControllerManager also runs kube-controller-manager. It garbage-collects objects by owner
// reference, finalizes namespaces, creates default service accounts and reconciles Deployments.
func WithControllerManager() Option {
	return func(o *options) { o.controllerManager = true }
}

// WithSnapshots builds the programs for Env.SaveSnapshot and StartAnother.
func WithSnapshots() Option {
	return func(o *options) { o.snapshots = true }
}

// WithAuditLog makes the API server log every request to Env.AuditLog, which Env.Writes reads.
func WithAuditLog() Option {
	return func(o *options) { o.auditLog = true }
}

// WithExternalIssuers makes the API server accept tokens from the issuers that tests write to
// Env.AuthenticationConfig. The API server connects to issuers through the HTTP proxy at the given
// URL, because DNS doesn't resolve names under localhost.
func WithExternalIssuers(proxy string) Option {
	return func(o *options) { o.externalIssuers, o.proxy = true, proxy }
}

// WithAuthentication makes the API server accept tokens from the issuers in the given
// AuthenticationConfiguration, which becomes the initial content of Env.AuthenticationConfig.
func WithAuthentication(configuration []byte) Option {
	return func(o *options) { o.externalIssuers, o.authentication = true, configuration }
}

// WithClusterTrustBundles makes the API server serve ClusterTrustBundles, which are in beta and
// disabled by default.
func WithClusterTrustBundles() Option {
	return func(o *options) {
		o.featureGates = append(o.featureGates, "ClusterTrustBundle")
		o.apis = append(o.apis, "certificates.k8s.io/v1beta1/clustertrustbundles")
	}
}

// WithScheme sets the scheme of Env.Client. By default, it contains the Kubernetes types,
// CustomResourceDefinition and the product's own types.
func WithScheme(scheme *runtime.Scheme) Option {
	return func(o *options) { o.scheme = scheme }
}

// WithCRDs installs the CRDs in the given files and directories instead of the product's CRDs in
// config/crd/bases. Without paths, it installs none.
func WithCRDs(paths ...string) Option {
	return func(o *options) { o.crds, o.ownCRDs = paths, true }
}

// binaries returns the names of the binaries that are needed in addition to those of the control plane.
func (o *options) binaries() []string {
	if o.snapshots {
		return []string{"kubectl", controlplane.SaveTool, controlplane.RestoreTool}
	}
	return []string{"kubectl"}
}

func (o *options) crdPaths() ([]string, error) {
	if o.ownCRDs {
		return o.crds, nil
	}
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return nil, fmt.Errorf("find the CRDs: %w", err)
	}
	return []string{filepath.Join(root, "config", "crd", "bases")}, nil
}

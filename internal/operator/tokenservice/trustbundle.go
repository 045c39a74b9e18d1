package tokenservice

import (
	"context"
	"errors"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	certificatesv1beta1ac "k8s.io/client-go/applyconfigurations/certificates/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// The ClusterTrustBundle is opt-in. To write one with a signer name, the operator must be allowed to
// attest for the signer.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=clustertrustbundles,verbs=create,roleName=realmkeeper-operator-trust-bundle
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=clustertrustbundles,resourceNames="auth.realmkeeper.dev:ca:realmkeeper-system",verbs=patch,roleName=realmkeeper-operator-trust-bundle
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=auth.realmkeeper.dev/ca,verbs=attest,roleName=realmkeeper-operator-trust-bundle

// TrustBundleSigner is the signer name of the ClusterTrustBundle.
const TrustBundleSigner = "auth.realmkeeper.dev/ca"

// TrustBundleName returns the name of the ClusterTrustBundle of an instance. It must start with the
// signer name.
func TrustBundleName(systemNamespace string) string {
	return "auth.realmkeeper.dev:ca:" + systemNamespace
}

var errNoTrustBundles = errors.New("the API server does not serve ClusterTrustBundles; enable its feature gate ClusterTrustBundle and certificates.k8s.io/v1beta1/clustertrustbundles, or set tls.managed.clusterTrustBundle to false")

const (
	// trustBundleInterval is the interval at which a ClusterTrustBundle is written again, because the operator
	// doesn't watch it. After an error, it is trustBundleRetry. Both are scaled.
	trustBundleInterval = time.Hour
	trustBundleRetry    = time.Minute
)

// publishTrustBundle writes the ClusterTrustBundle if it is enabled. It returns the time at which it
// must be written again; zero if never. Errors are only recorded, because they concern nothing else.
func (r *Reconciler) publishTrustBundle(ctx context.Context, seen observed, d decision, now time.Time) time.Time {
	if d.bundle == nil || !r.Instance.PublishesTrustBundle() {
		return time.Time{}
	}
	again := trustBundleInterval
	if err := r.applyTrustBundle(ctx, d.bundle); err != nil {
		again = trustBundleRetry
		note := "Failed to write the ClusterTrustBundle: " + err.Error() + "."
		r.record(seen, corev1.EventTypeWarning, v1beta1.EventTrustBundleFailed, note[:min(len(note), maxNote)])
		ctrl.LoggerFrom(ctx).Error(err, "Failed to write the ClusterTrustBundle, will retry")
	}
	return now.Add(max(time.Second, r.Instance.Scaled(again)))
}

// applyTrustBundle reads nothing first. A cache could not start without the API, and an unchanged object stays
// unchanged.
func (r *Reconciler) applyTrustBundle(ctx context.Context, bundle []byte) error {
	desired := certificatesv1beta1ac.ClusterTrustBundle(TrustBundleName(r.Instance.SystemNamespace)).WithLabels(labels(r.Instance)).
		WithSpec(certificatesv1beta1ac.ClusterTrustBundleSpec().WithSignerName(TrustBundleSigner).WithTrustBundle(string(bundle)))
	err := apply.Object(ctx, r.Client, (*certificatesv1beta1.ClusterTrustBundle)(nil), desired)
	if apierrors.IsNotFound(err) {
		return errNoTrustBundles
	}
	return err
}

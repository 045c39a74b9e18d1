package tokenservice

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

// reported returns the Events of a function, and its log messages.
func reported(t *testing.T, r *Reconciler, f func(context.Context)) (recorded, logged []string) {
	t.Helper()
	recorder := events.NewFakeRecorder(100)
	r.Events = recorder
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	f(ctrl.LoggerInto(t.Context(), log))
	close(recorder.Events)
	for event := range recorder.Events {
		recorded = append(recorded, event)
	}
	return recorded, logged
}

// Clients that don't load ca.crt again fail after these changes, so each one has a warning.
func TestWarningsAboutChangesByHand(t *testing.T) {
	i := instance(t, "")
	first := settled(t, decided(t, observed{}, i, now))
	end := now.Add(3650 * 24 * time.Hour)
	for name, test := range map[string]struct {
		seen observed
		at   time.Time
		want []string
	}{
		"first installation": {observed{}, now, nil},
		"deleted":            {observed{serving: first.serving}, now, []string{"Warning CAReplaced The Secret was missing"}},
		"replaced":           {observed{authority: settled(t, decided(t, observed{}, i, now)).authority, serving: first.serving}, now, []string{"Warning CAReplaced Another certificate authority was found"}},
		"expired":            {first, end.Add(time.Minute), []string{"Warning CAReplaced The certificate authority has expired"}},
		"generated later":    {first, now.Add(-48 * time.Hour), []string{"Warning CAReplaced The certificate authority is not valid yet"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Instance: i, Metrics: metrics.New(prometheus.NewRegistry())}
			recorded, _ := reported(t, r, func(ctx context.Context) {
				r.report(ctx, test.seen, decided(t, test.seen, i, test.at))
			})
			if !slices.EqualFunc(recorded, test.want, strings.HasPrefix) {
				t.Errorf("%q, want %q", recorded, test.want)
			}
		})
	}
}

// An error that concerns only the ClusterTrustBundle is recorded and logged as long as it lasts.
func TestTrustBundleErrors(t *testing.T) {
	var failure error
	failing := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, desired runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if failure != nil {
				return failure
			}
			return c.Apply(ctx, desired, options...)
		},
	}).Build()
	i := instance(t, "tls: {managed: {clusterTrustBundle: true}}")
	r := &Reconciler{Instance: i, Client: failing}
	d := decided(t, observed{}, i, now)
	recorded, logged := reported(t, r, func(ctx context.Context) {
		for _, failure = range []error{errors.New("a"), errors.New("a"), nil, nil} {
			again := r.publishTrustBundle(ctx, observed{}, d, now).Sub(now)
			if want := map[bool]time.Duration{true: time.Minute, false: time.Hour}[failure != nil]; again != want {
				t.Errorf("error %v: again after %s, want %s", failure, again, want)
			}
		}
	})
	if len(logged) != 2 || len(recorded) != 2 || !strings.HasPrefix(recorded[0], "Warning TrustBundleFailed ") {
		t.Errorf("logged %q, recorded %q", logged, recorded)
	}
}

// A ConfigMap with the reserved name is deleted only if the operator wrote it.
func TestForeignConfigMapIsKept(t *testing.T) {
	for owner, kept := range map[string]bool{v1beta1.ManagedBy: false, "helm": true, "": true} {
		published := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: BundleName, Labels: map[string]string{v1beta1.ManagedByLabel: owner}}}
		c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(published).Build()
		r := &Reconciler{Instance: instance(t, "tls: {secretName: own}"), Client: c}
		testkit.Do(t, r.applyCABundle(t.Context(), observed{caBundle: published}, decided(t, observed{}, r.Instance, now)))
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(published), published); (err == nil) != kept {
			t.Errorf("managed by %q: %v, want it kept: %t", owner, err, kept)
		}
	}
}

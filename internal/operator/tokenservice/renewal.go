package tokenservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
)

const (
	// recheckInterval is the interval at which credentials Secrets are counted during a renewal. It is
	// scaled, but at least minRecheckInterval.
	recheckInterval    = time.Minute
	minRecheckInterval = time.Second

	// maxNamed is the number of ApiClients that a log message or an Event names, and that get an
	// Event.
	maxNamed = 50

	// trustBundleInterval is the interval at which a ClusterTrustBundle is compared, because the operator
	// doesn't watch it.
	trustBundleInterval = time.Hour
)

// recheckAfter returns the time until the credentials Secrets must be counted or something must be
// tried again; zero if neither is needed.
func (r *Reconciler) recheckAfter(seen observed, d decision, retry bool) time.Duration {
	if retry || d.isWaiting() || len(seen.outdated) > 0 {
		return max(minRecheckInterval, r.Instance.Scaled(recheckInterval))
	}
	if r.Instance.PublishesTrustBundle() {
		return max(minRecheckInterval, r.Instance.Scaled(trustBundleInterval))
	}
	return 0
}

// report logs and records a step of the CA that has been written, and shares the progress of a
// renewal. err is the error of the decision.
func (r *Reconciler) report(ctx context.Context, seen observed, d decision, now time.Time, err error) {
	outdated := len(seen.outdated)
	if slices.Contains(d.plan.Steps, authority.Moved) || slices.Contains(d.plan.Steps, authority.Published) {
		outdated = 0 // They were counted before this step.
	}
	switch {
	case errors.Is(err, authority.ErrUnusable), errors.Is(err, authority.ErrUnreadable):
		r.Renewal.Set(ctx, &authority.Unusable)
	case d.authority == nil:
		r.Renewal.Set(ctx, nil)
	default:
		r.Renewal.Set(ctx, d.authority.Progress(now, outdated, authority.PolicyOf(r.Instance)))
		r.reportForeign(ctx, d.authority)
	}
	if d.serving != nil {
		leaf, _ := d.serving.Parse() // It was just issued or verified.
		r.Metrics.Certificates(d.authority.Current.Leaf.NotAfter, leaf.NotAfter, outdated)
	}
	for _, step := range d.plan.Steps {
		r.reportStep(ctx, seen, d, step)
	}
}

func (r *Reconciler) reportStep(ctx context.Context, seen observed, d decision, step authority.Step) {
	log := ctrl.LoggerFrom(ctx).WithValues("secret", authority.SecretName, "step", step, "certificate", d.authority.Current.Leaf.Subject.CommonName)
	record := func(kind string, reason v1alpha1.EventReason, note string) { r.record(seen, kind, reason, note) }
	abrupt := func(note string) {
		log.Info("Clients must load ca.crt again because another certificate authority signs")
		record(corev1.EventTypeWarning, v1alpha1.EventCAReplaced, note+" Clients must load ca.crt again.")
	}
	switch step {
	case authority.Created:
		log.Info("Generated a certificate authority")
		if len(d.authority.Previous) > 0 {
			abrupt("The Secret was missing, and a certificate authority that the operator generated signs from now on.")
		}
	case authority.Adopted:
		abrupt("Another certificate authority was found in the Secret.")
	case authority.Expired:
		abrupt("The certificate authority has expired, and another one signs from now on.")
	case authority.NotYetValid:
		abrupt("The certificate authority is not valid yet because the clock was wrong when the operator generated it, and another one signs from now on.")
	case authority.Renamed:
		abrupt("The names of the token servers have changed, and another certificate authority signs from now on.")
	case authority.Published:
		log.Info("Published the next certificate authority", "next", d.authority.Next.Leaf.Subject.CommonName)
		kind, note := corev1.EventTypeNormal, "Clients start to trust the next certificate authority."
		if d.authority.IsAbrupt() {
			kind, note = corev1.EventTypeWarning, note+" "+authority.Abrupt
		}
		record(kind, v1alpha1.EventCAPublished, note)
	case authority.Moved:
		log.Info("The next certificate authority signs from now on")
		record(corev1.EventTypeNormal, v1alpha1.EventCAReplaced, "The next certificate authority signs from now on.")
	case authority.Forced:
		names := clientNames(seen.outdated)
		log.Info("The next certificate authority signs from now on, although credentials Secrets do not contain it", "outdated", len(seen.outdated), "apiClients", names)
		record(corev1.EventTypeWarning, v1alpha1.EventCAReplaced, truncated(fmt.Sprintf(
			"The next certificate authority signs from now on, although %d credentials Secrets do not contain it, those of the ApiClients %s.", len(seen.outdated), strings.Join(names, ", "))))
		for _, c := range seen.outdated[:min(maxNamed, len(seen.outdated))] {
			r.Events.Eventf(c, nil, corev1.EventTypeWarning, string(v1alpha1.EventCredentialsOutdated), string(v1alpha1.EventActionRotate),
				"Another certificate authority signs the certificate of the token servers, and ca.crt in Secret %s does not contain it. Remove what prevents the operator from writing the Secret.", c.EffectiveSecretName())
		}
	}
}

// record records an Event about the Secret with the CA.
func (r *Reconciler) record(seen observed, kind string, reason v1alpha1.EventReason, note string) {
	secret := &corev1.Secret{}
	if seen.authority != nil {
		secret = seen.authority.DeepCopy()
	}
	secret.Namespace, secret.Name = r.Instance.SystemNamespace, authority.SecretName
	secret.APIVersion, secret.Kind = "v1", "Secret"
	r.Events.Eventf(secret, nil, kind, string(reason), string(v1alpha1.EventActionRotate), "%s", note)
}

// reportForeign logs which certificates in the bundle the operator did not generate. They stay in the
// bundle until they expire, because a user put them there.
func (r *Reconciler) reportForeign(ctx context.Context, a *authority.Authority) {
	var names []string
	for _, c := range a.Bundle() {
		if !certificate.IsGenerated(c) {
			names = append(names, c.Subject.String())
		}
	}
	if !slices.Equal(names, r.foreign) && len(names) > 0 {
		ctrl.LoggerFrom(ctx).Info("Clients also trust certificates that the operator did not generate", "secret", authority.SecretName, "certificates", names)
	}
	r.foreign = names
}

func clientNames(clients []*v1alpha1.ApiClient) []string {
	var names []string
	for _, c := range clients[:min(maxNamed, len(clients))] {
		names = append(names, client.ObjectKeyFromObject(c).String())
	}
	return names
}

// truncated shortens a note to the length that the API server accepts.
func truncated(note string) string {
	const limit = 1024
	return note[:min(limit, len(note))]
}

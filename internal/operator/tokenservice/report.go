package tokenservice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
)

// maxNote is the maximum length of the note of an Event.
const maxNote = 1024

// report logs and records a step of the CA that has been written, and sets the metrics.
func (r *Reconciler) report(ctx context.Context, seen observed, d decision) {
	if d.serving == nil {
		return
	}
	current := d.plan.Current.Leaf
	leaf, _ := d.serving.Parse() // It was just issued or verified.
	r.Metrics.Certificates(current.NotAfter, leaf.NotAfter)

	log := ctrl.LoggerFrom(ctx).WithValues("secret", authority.SecretName, "step", d.plan.Step, "certificate", current.Subject.CommonName)
	if d.unexpected {
		log.Info("Clients must load ca.crt again because another certificate authority signs")
		r.record(seen, corev1.EventTypeWarning, v1beta1.EventCAReplaced, unexpectedCause(d.plan.Step)+" Clients must load ca.crt again.")
	}
	switch d.plan.Step {
	case authority.Generated:
		log.Info("Generated a certificate authority")
	case authority.Published:
		log.Info("Published the next certificate authority", "next", d.plan.Authority.Next.Leaf.Subject.CommonName)
		r.record(seen, corev1.EventTypeNormal, v1beta1.EventCAPublished, "Clients start to trust the next certificate authority.")
	case authority.Switched:
		log.Info("The next certificate authority signs from now on")
		r.record(seen, corev1.EventTypeNormal, v1beta1.EventCAReplaced, "The next certificate authority signs from now on.")
	case authority.Expired, authority.NotYetValid, authority.Renamed:
		log.Info(unexpectedCause(d.plan.Step))
	}
}

// unexpectedCause explains why another CA signs that was not published before.
func unexpectedCause(step authority.Step) string {
	switch step {
	case authority.Generated:
		return "The Secret was missing, and a certificate authority that the operator generated signs from now on."
	case authority.Expired:
		return "The certificate authority has expired, and another one signs from now on."
	case authority.NotYetValid:
		return "The certificate authority is not valid yet because the clock was wrong when the operator generated it, and another one signs from now on."
	case authority.Renamed:
		return "The names of the token servers have changed, and another certificate authority signs from now on."
	}
	return "Another certificate authority was found in the Secret."
}

// record records an Event about the Secret with the CA.
func (r *Reconciler) record(seen observed, kind string, reason v1beta1.EventReason, note string) {
	secret := &corev1.Secret{}
	if seen.authority != nil {
		secret = seen.authority.DeepCopy()
	}
	secret.Namespace, secret.Name = r.Instance.SystemNamespace, authority.SecretName
	secret.APIVersion, secret.Kind = "v1", "Secret"
	r.Events.Eventf(secret, nil, kind, string(reason), string(v1beta1.EventActionRotate), "%s", note)
}

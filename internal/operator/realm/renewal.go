package realm

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// caRenewal returns the result for the CARenewal condition; nil if there is none. An operator that has
// just started doesn't know the result yet, and keeps that of the status.
func (r *Reconciler) caRenewal(realm *v1alpha1.Realm) *condition.Result {
	result, known := r.Renewal.Result()
	if known {
		return result
	}
	before := meta.FindStatusCondition(realm.Status.Conditions, string(v1alpha1.ConditionCARenewal))
	if before == nil {
		return nil
	}
	return &condition.Result{Status: before.Status, Reason: v1alpha1.ConditionReason(before.Reason), Message: before.Message}
}

func (r *Reconciler) allRealms(ctx context.Context) []reconcile.Request {
	realms := &v1alpha1.RealmList{}
	if err := r.Client.List(ctx, realms, client.UnsafeDisableDeepCopy); err != nil {
		// A running cache does not return errors, so the process must be stopping.
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list Realms")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(realms.Items))
	for i := range realms.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&realms.Items[i])})
	}
	return requests
}

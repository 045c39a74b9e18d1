package condition

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Holder is an object that has conditions.
type Holder interface {
	client.Object
	GetConditions() []metav1.Condition
}

// Changed returns a predicate that selects the updates of an object that its own reconciler must
// process: a new generation, a recreated object with the same name, a requested release, or changed conditions. The
// reconciler itself makes most condition changes, but it may have read a stale cache. Reconciling
// again after its own write corrects this.
func Changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(Holder)
		after, okAfter := e.ObjectNew.(Holder)
		return !okBefore || !okAfter ||
			before.GetUID() != after.GetUID() ||
			before.GetGeneration() != after.GetGeneration() ||
			before.GetAnnotations()[v1beta1.ReleaseAnnotation] != after.GetAnnotations()[v1beta1.ReleaseAnnotation] ||
			!equality.Semantic.DeepEqual(before.GetConditions(), after.GetConditions())
	}}
}

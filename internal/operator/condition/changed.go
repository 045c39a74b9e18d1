package condition

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Holder is an object with conditions.
type Holder interface {
	client.Object
	GetConditions() []metav1.Condition
}

// Changed passes the updates that an object's own reconciler has to see: another spec,
// another object under the same name, and other conditions. The last are mostly what the reconciler
// wrote itself; but it decides by a cache that may lag behind that, and what it then left
// as it was has to be looked at again.
func Changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(Holder)
		after, okAfter := e.ObjectNew.(Holder)
		return !okBefore || !okAfter ||
			before.GetUID() != after.GetUID() ||
			before.GetGeneration() != after.GetGeneration() ||
			!equality.Semantic.DeepEqual(before.GetConditions(), after.GetConditions())
	}}
}

package informers

import "k8s.io/client-go/tools/cache"

// Handler returns an event handler for objects of one type. It calls set with each new or changed object, and
// remove with the last known state of a deleted one.
func Handler[O any](set, remove func(O)) cache.ResourceEventHandler {
	apply := func(object any, change func(O)) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		if typed, ok := object.(O); ok {
			change(typed)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { apply(object, set) },
		UpdateFunc: func(_, object any) { apply(object, set) },
		DeleteFunc: func(object any) { apply(object, remove) },
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

var errNoSample = errors.New("config/samples has no ApiClient")

// applySamples applies config/samples, waits until everything in it is Ready, and returns
// its first ApiClient.
func (d *demo) applySamples(ctx context.Context) (*v1alpha1.ApiClient, error) {
	d.Step("Applying config/samples ...")
	objects, err := d.apply(ctx, "config/samples")
	if err != nil {
		return nil, err
	}
	var first *v1alpha1.ApiClient
	for _, object := range objects {
		if object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
			continue
		}
		if err := d.awaitReady(ctx, object); err != nil {
			return nil, err
		}
		if object.GetKind() == "ApiClient" && first == nil {
			first = &v1alpha1.ApiClient{}
			if err := d.cluster.Get(ctx, client.ObjectKeyFromObject(object), first); err != nil {
				return nil, err
			}
		}
	}
	if first == nil {
		return nil, errNoSample
	}
	return first, nil
}

// awaitReady waits until the object is Ready, and tells its conditions as they change.
func (d *demo) awaitReady(ctx context.Context, object *unstructured.Unstructured) error {
	name, told := describe(object), ""
	return d.await(ctx, "waiting for "+name+" to be Ready", func(ctx context.Context) error {
		if err := d.cluster.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		var is struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &is); err != nil {
			return err
		}
		now := tell(is.Status.Conditions)
		if now != told {
			d.Step("  %s: %s", name, now)
			told = now
		}
		return readiness(object, is.Status.Conditions)
	})
}

// tell puts the conditions into one line, with the message of Ready, which is their summary.
func tell(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, string(v1alpha1.ConditionReady))
	if ready == nil {
		return "no status yet"
	}
	var parts []string
	for _, c := range conditions {
		switch v1alpha1.ConditionType(c.Type) {
		case v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady:
			parts = append(parts, c.Type+"="+string(c.Status))
		}
	}
	return strings.Join(parts, " ") + ": " + ready.Message
}

// readiness is nil for an object whose newest generation is Ready. What waits for a
// person, a fault or a decision such as a suspension, is final.
func readiness(object *unstructured.Unstructured, conditions []metav1.Condition) error {
	ready := meta.FindStatusCondition(conditions, string(v1alpha1.ConditionReady))
	if ready == nil || ready.ObservedGeneration != object.GetGeneration() {
		return errors.New("the operator has not looked at it yet")
	}
	if ready.Status == metav1.ConditionTrue {
		return nil
	}
	err := fmt.Errorf("it is not: %s: %s", ready.Reason, ready.Message)
	stalled := meta.IsStatusConditionTrue(conditions, string(v1alpha1.ConditionStalled))
	switch reason := v1alpha1.ConditionReason(ready.Reason); {
	case stalled, reason == v1alpha1.ReasonSuspended, reason == v1alpha1.ReasonExpired:
		return finalError{err}
	}
	return err
}

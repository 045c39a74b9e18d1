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

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

var errNoSample = errors.New("config/samples has no ApiClient")

// applySamples applies config/samples, waits until its objects are Ready, and returns the
// first ApiClient.
func (d *demo) applySamples(ctx context.Context) (*v1beta1.ApiClient, error) {
	d.Step("Applying config/samples ...")
	objects, err := d.apply(ctx, "config/samples")
	if err != nil {
		return nil, err
	}
	var first *v1beta1.ApiClient
	for _, object := range objects {
		if object.GroupVersionKind().Group != v1beta1.GroupVersion.Group {
			continue
		}
		if err := d.awaitReady(ctx, object); err != nil {
			return nil, err
		}
		if object.GetKind() == "ApiClient" && first == nil {
			first = &v1beta1.ApiClient{}
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

// awaitReady waits until the object is Ready and prints its conditions when they change.
func (d *demo) awaitReady(ctx context.Context, object *unstructured.Unstructured) error {
	name, printed := describe(object), ""
	return d.await(ctx, "wait until "+name+" is Ready", func(ctx context.Context) error {
		if err := d.cluster.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		var current struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &current); err != nil {
			return err
		}
		if line := summarize(current.Status.Conditions); line != printed {
			d.Step("  %s: %s", name, line)
			printed = line
		}
		return readiness(object, current.Status.Conditions)
	})
}

// summarize returns the conditions and the message of Ready in one line.
func summarize(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, string(v1beta1.ConditionReady))
	if ready == nil {
		return "no status yet"
	}
	var parts []string
	for _, c := range conditions {
		switch v1beta1.ConditionType(c.Type) {
		case v1beta1.ConditionAccepted, v1beta1.ConditionProgrammed, v1beta1.ConditionReady:
			parts = append(parts, c.Type+"="+string(c.Status))
		}
	}
	return strings.Join(parts, " ") + ": " + ready.Message
}

// readiness returns nil if the current generation of the object is Ready. The error is final if the
// object needs a change by a user, such as setting spec.suspend to false.
func readiness(object *unstructured.Unstructured, conditions []metav1.Condition) error {
	ready := meta.FindStatusCondition(conditions, string(v1beta1.ConditionReady))
	if ready == nil || ready.ObservedGeneration != object.GetGeneration() {
		return errors.New("the operator has not observed the current generation")
	}
	if ready.Status == metav1.ConditionTrue {
		return nil
	}
	err := fmt.Errorf("not Ready: %s: %s", ready.Reason, ready.Message)
	stalled := meta.IsStatusConditionTrue(conditions, string(v1beta1.ConditionStalled))
	switch reason := v1beta1.ConditionReason(ready.Reason); {
	case stalled, reason == v1beta1.ReasonSuspended, reason == v1beta1.ReasonRealmSuspended, reason == v1beta1.ReasonExpired:
		return finalError{err}
	}
	return err
}

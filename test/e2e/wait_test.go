//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
)

// timeout limits each wait. It is generous and not a performance goal.
const (
	timeout  = 4 * time.Minute
	interval = 200 * time.Millisecond
)

var errNotYet = errors.New("not yet")

// eventually retries ask until it succeeds. The test fails after timeout.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: %v", what, err)
		}
		<-ticker.C
	}
}

func get(t *testing.T, namespace, name string, into client.Object) {
	t.Helper()
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

// conditioned is an object with conditions, that is, a Realm or an ApiClient.
type conditioned interface {
	client.Object
	GetConditions() []metav1.Condition
}

// awaitReady waits until the object is Ready.
func awaitReady(t *testing.T, object conditioned) {
	t.Helper()
	eventually(t, object.GetName()+" to be Ready", func() error {
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(object.GetConditions(), string(v1beta1.ConditionReady))
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != object.GetGeneration() {
			return fmt.Errorf("%w: %+v", errNotYet, ready)
		}
		return nil
	})
}

// awaitNoObjects waits until there are no Realms and ApiClients, and the operator has deleted their
// records.
func awaitNoObjects(t *testing.T) {
	t.Helper()
	eventually(t, "the Realms, ApiClients, and records to be deleted", func() error {
		for _, list := range []client.ObjectList{&v1beta1.RealmList{}, &v1beta1.ApiClientList{}, &corev1.SecretList{}} {
			options := []client.ListOption{}
			if _, secrets := list.(*corev1.SecretList); secrets {
				options = append(options, client.HasLabels{v1beta1.RecordLabel})
			}
			if err := cluster.List(t.Context(), list, options...); err != nil {
				return err
			}
			left := meta.LenList(list)
			if secrets, ok := list.(*corev1.SecretList); ok && slices.ContainsFunc(secrets.Items, func(s corev1.Secret) bool { return s.Name == beacon.Name }) {
				left--
			}
			if left > 0 {
				return fmt.Errorf("%w: %d left in %T", errNotYet, left, list)
			}
		}
		return nil
	})
}

// awaitRollout waits until all Pods of a Deployment run the current template and are ready, and all
// older Pods have exited.
func awaitRollout(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the rollout of "+name, func() error {
		d, err := updated(t, name)
		if err != nil {
			return err
		}
		pods := podsOf(t, d.Spec.Selector.MatchLabels)
		if len(pods) != int(*d.Spec.Replicas) {
			return fmt.Errorf("%w: got %d pods, want %d", errNotYet, len(pods), *d.Spec.Replicas)
		}
		for i := range pods { // the status of the Deployment may be older
			if !isReady(&pods[i]) {
				return fmt.Errorf("%w: %s is not ready", errNotYet, pods[i].Name)
			}
		}
		return nil
	})
}

// updated returns a Deployment, and an error unless all its Pods run the current template and are
// ready. Older Pods may still drain.
func updated(t *testing.T, name string) (*appsv1.Deployment, error) {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: name}, d); err != nil {
		return nil, err
	}
	s, want := d.Status, *d.Spec.Replicas
	if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.ReadyReplicas != want || s.Replicas != want {
		return nil, fmt.Errorf("%w: want %d pods, got %+v", errNotYet, want, s)
	}
	return d, nil
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podsOf(t *testing.T, labels map[string]string) []corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	if err := cluster.List(t.Context(), pods, client.InNamespace(systemNamespace), client.MatchingLabels(labels)); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// tokenServers returns the token server Pods.
func tokenServers(t *testing.T) []corev1.Pod {
	t.Helper()
	return podsOf(t, map[string]string{"app.kubernetes.io/name": "realmkeeper", "app.kubernetes.io/component": "token-server"})
}

func operators(t *testing.T) []corev1.Pod {
	t.Helper()
	return podsOf(t, map[string]string{"app.kubernetes.io/name": "realmkeeper", "app.kubernetes.io/component": "operator"})
}

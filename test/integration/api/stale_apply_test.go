package api_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

// Another owner's change after the read is neither lost nor silently overwritten.
func TestStaleChangeFails(t *testing.T) {
	cluster := env.Start(t)
	namespace := cluster.Namespace(t)
	object := func(value string) *corev1ac.ServiceAccountApplyConfiguration {
		return corev1ac.ServiceAccount("acme", namespace).WithLabels(map[string]string{"owned": value})
	}
	write := func(live *corev1.ServiceAccount, value string) error {
		return apply.Object(t.Context(), cluster.Client, live, object(value))
	}
	read := func() *corev1.ServiceAccount {
		live := &corev1.ServiceAccount{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "acme"}, live); err != nil {
			t.Fatal(err)
		}
		return live
	}

	if err := write(nil, "1"); err != nil {
		t.Fatal(err)
	}
	stale := read()
	edited := stale.DeepCopy()
	edited.Labels["owned"], edited.Labels["other"] = "changed", "kept"
	if err := cluster.Client.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	if err := write(stale, "2"); !apierrors.IsConflict(err) {
		t.Errorf("stale change: error %v, want a conflict", err)
	}
	if err := write(read(), "2"); err != nil {
		t.Fatal(err)
	}
	now := read()
	if now.Labels["owned"] != "2" || now.Labels["other"] != "kept" {
		t.Errorf("labels after a change of the latest version: %v", now.Labels)
	}
	if err := write(now, "2"); err != nil {
		t.Fatal(err)
	}
	if again := read(); again.ResourceVersion != now.ResourceVersion {
		t.Error("an unchanged object was written again")
	}
}

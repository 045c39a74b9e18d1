package api_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/kubeapi/admission"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

var localRules = sync.OnceValues(admission.Load)

// decoded returns a copy of an object that was encoded to JSON and decoded again.
func decoded(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	data, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	same := &unstructured.Unstructured{}
	if err := same.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return same
}

// expectSameLocally checks that the local issuer accepts or rejects an object, or a change of old, as
// the API server did, and with the same message as Kubernetes 1.37. It doesn't modify the objects.
func expectSameLocally(t *testing.T, object, old *unstructured.Unstructured, want error) {
	t.Helper()
	rules, err := localRules()
	if err != nil {
		t.Fatal(err)
	}
	if old != nil {
		old = decoded(t, old)
	}
	got, message := rules.Admit(t.Context(), decoded(t, object), old), ""
	if got != nil {
		message = got.Error()
	}
	if apierrors.IsBadRequest(got) && old == nil {
		// Like kubectl, the local issuer rejects unknown fields. Most requests of this suite don't.
		want = env.Start(t).Client.Create(t.Context(), decoded(t, object), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	}
	// Older versions have other messages for values of a wrong type, and for values that a rule rejects.
	if env.Start(t).Version.LessThan(version.MajorMinor(1, 36)) {
		if (got != nil) != (want != nil) {
			t.Errorf("The local issuer decides differently: %v, the API server: %v", got, want)
		}
		return
	}
	wanted := ""
	if want != nil {
		wanted = want.Error()
	}
	if diff := cmp.Diff(wanted, message); diff != "" {
		t.Errorf("The local issuer decides differently (-API server +local):\n%s", diff)
	}
}

package apply_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

func desired() *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret("a", "team").WithLabels(map[string]string{"role": "x"}).WithAnnotations(map[string]string{"note": "x"}).WithType(corev1.SecretTypeOpaque).
		WithData(map[string][]byte{"key": []byte("value"), "empty": {}}).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName("a").WithUID("u").WithController(true))
}

// created returns a client of an API server, and the Secret that the operator created there.
func created(t *testing.T) (client.Client, *corev1.Secret) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	secret := testkit.Value(apply.Secret(t.Context(), c, nil, desired()))(t)
	return c, secret
}

// cached returns what a cache contains of a Secret.
func cached(live *corev1.Secret) *corev1.Secret {
	packed := live.DeepCopy()
	apply.Pack(packed, nil, nil)
	return apply.Unpack(packed)
}

// A cached Secret without its data shows every change to what the operator has set, and no other change.
// The operator reverts the former and keeps the latter.
func TestSecretRevertsOnlyChangesToItsFields(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*corev1.Secret)
		wantWrite bool
		// wantKept means that the change stays.
		wantKept bool
	}{
		"unchanged":          {change: func(*corev1.Secret) {}, wantKept: true},
		"foreign annotation": {change: func(s *corev1.Secret) { s.Annotations["other"] = "x" }, wantKept: true},
		"foreign owner": {change: func(s *corev1.Secret) {
			s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "b", UID: "v"})
		}, wantKept: true},
		"value changed":       {change: func(s *corev1.Secret) { s.Data["key"] = []byte("x") }, wantWrite: true},
		"label changed":       {change: func(s *corev1.Secret) { s.Labels["role"] = "y" }, wantWrite: true},
		"annotations removed": {change: func(s *corev1.Secret) { s.Annotations = nil }, wantWrite: true},
		"owner removed":       {change: func(s *corev1.Secret) { s.OwnerReferences = nil }, wantWrite: true},
		"names changed":       {change: func(s *corev1.Secret) { s.Annotations[v1beta1.AppliedFieldsAnnotation] = `{"data":["key"]}` }, wantWrite: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, original := created(t)
			live := original.DeepCopy()
			test.change(live)
			testkit.Do(t, c.Update(t.Context(), live))
			known := cached(live)
			got, err := apply.Secret(t.Context(), c, known, desired())
			if err != nil || (got != known) != test.wantWrite {
				t.Fatalf("wrote: %t, want %t; error %v", got != known, test.wantWrite, err)
			}
			want := live
			if !test.wantKept {
				want = original
			}
			requireContent(t, c, want)
		})
	}
}

// requireContent requires that a Secret has the labels, annotations, owners and data of another one.
func requireContent(t *testing.T, c client.Client, want *corev1.Secret) {
	t.Helper()
	content := func(s *corev1.Secret) string {
		text := testkit.Value(json.Marshal([]any{s.Labels, s.Annotations, s.OwnerReferences, s.Data}))(t)
		return string(text)
	}
	got := &corev1.Secret{}
	testkit.Do(t, c.Get(t.Context(), client.ObjectKeyFromObject(want), got))
	if content(got) != content(want) {
		t.Errorf("The Secret has %s, want %s", content(got), content(want))
	}
}

// What the operator no longer sets is removed, and what others set stays.
func TestSecretRemovesItsFields(t *testing.T) {
	c, live := created(t)
	live.Labels["foreign"], live.Annotations["foreign"], live.Data["foreign"] = "x", "x", []byte("x")
	testkit.Do(t, c.Update(t.Context(), live))
	less := desired()
	less.Labels, less.Annotations = nil, nil
	delete(less.Data, "key")
	if _, err := apply.Secret(t.Context(), c, cached(live), less); err != nil {
		t.Fatal(err)
	}
	delete(live.Labels, "role")
	live.Annotations = map[string]string{"foreign": "x", v1beta1.AppliedFieldsAnnotation: `{"data":["empty"]}`}
	delete(live.Data, "key")
	requireContent(t, c, live)
}

// A write based on a stale read fails.
func TestSecretIsNotWrittenFromStaleRead(t *testing.T) {
	other := func() *corev1ac.SecretApplyConfiguration {
		return desired().WithData(map[string][]byte{"key": []byte("new")})
	}
	for name, change := range map[string]func(client.Client, *corev1.Secret) error{
		"changed": func(c client.Client, s *corev1.Secret) error {
			s.Labels["other"] = "x"
			return c.Update(t.Context(), s)
		},
		"deleted": func(c client.Client, s *corev1.Secret) error { return c.Delete(t.Context(), s) },
	} {
		t.Run(name, func(t *testing.T) {
			c, live := created(t)
			known := cached(live)
			testkit.Do(t, change(c, live))
			if _, err := apply.Secret(t.Context(), c, known, other()); !apply.IsStale(err) {
				t.Errorf("Secret() = %v, want an error that satisfies IsStale", err)
			}
		})
	}
	c, _ := created(t)
	if _, err := apply.Secret(t.Context(), c, nil, other()); !apply.IsStale(err) {
		t.Errorf("Secret() = %v for a Secret that exists, want an error that satisfies IsStale", err)
	}
}

// A cache contains what was kept of a Secret, in one string.
func TestPack(t *testing.T) {
	_, live := created(t)
	if apply.Stripped(live) {
		t.Error("a Secret of the API server is taken for one of a cache")
	}
	packed := live.DeepCopy()
	apply.Pack(packed, map[string]string{"mark": "x"}, map[string][]byte{"key": []byte("value")})
	if !apply.Stripped(packed) || packed.Data != nil || len(packed.Annotations) != 1 {
		t.Errorf("a cache contains %+v", packed)
	}
	got := apply.Unpack(packed)
	if got.Annotations["mark"] != "x" || got.Annotations[v1beta1.AppliedFieldsAnnotation] != live.Annotations[v1beta1.AppliedFieldsAnnotation] ||
		string(got.Data["key"]) != "value" || got.UID != live.UID || got.ResourceVersion != live.ResourceVersion || apply.Unpack(got) != got {
		t.Errorf("it is unpacked to %+v", got)
	}
}

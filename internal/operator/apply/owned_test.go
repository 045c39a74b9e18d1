package apply_test

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

func desired() *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret("a", "team").WithLabels(map[string]string{"role": "x"}).WithData(map[string][]byte{"key": []byte("value")})
}

// created returns the Secret that the API server stores after the operator created it.
func created() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "team", UID: "u", ResourceVersion: "7", Labels: map[string]string{"role": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: v1alpha1.FieldOwner, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:key":{}},"f:metadata":{"f:labels":{".":{},"f:role":{}}}}`),
			}},
		},
		Data: map[string][]byte{"key": []byte("value")},
	}
}

// cached returns the part of a Secret that a cache contains.
func cached(live *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: live.Name, Namespace: live.Namespace, UID: live.UID, ResourceVersion: live.ResourceVersion, Annotations: apply.Summary(live)}}
}

// server is an API server with one Secret. Other writes than Patch panic.
type server struct {
	client.Client

	live *corev1.Secret
}

func (s server) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.live.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

// A cached Secret without its data and managed fields still shows every change to the fields that the
// operator owns, and no other change.
func TestSummaryDetectsDrift(t *testing.T) {
	tests := map[string]struct {
		change    func(*corev1.Secret)
		wantWrite bool
	}{
		"unchanged":          {func(*corev1.Secret) {}, false},
		"foreign annotation": {func(s *corev1.Secret) { s.Annotations = map[string]string{"note": "x"} }, false},
		"foreign data":       {func(s *corev1.Secret) { s.Data["other"] = []byte("x") }, false},
		"value changed":      {func(s *corev1.Secret) { s.Data["key"] = []byte("x") }, true},
		"value removed":      {func(s *corev1.Secret) { s.Data = nil }, true},
		"label changed":      {func(s *corev1.Secret) { s.Labels["role"] = "y" }, true},
		"owned by another":   {func(s *corev1.Secret) { s.ManagedFields[0].Manager = "kubectl" }, true},
		"foreign owner":      {func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{{UID: "u"}} }, false},
		"owned reference": {func(s *corev1.Secret) {
			own(s, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}}`)
			s.OwnerReferences = []metav1.OwnerReference{{UID: "u"}}
		}, true},
		"owned type": {func(s *corev1.Secret) {
			own(s, `{"f:data":{"f:key":{}},"f:metadata":{"f:labels":{"f:role":{}}},"f:type":{}}`)
			s.Type = "x"
		}, true},
		"never set": {func(s *corev1.Secret) {
			own(s, `{"f:data":{"f:key":{}},"f:metadata":{"f:labels":{"f:role":{}}},"f:immutable":{}}`)
		}, true},
		"unreadable":          {func(s *corev1.Secret) { own(s, `{`) }, true},
		"no managed fields":   {func(s *corev1.Secret) { s.ManagedFields = nil }, true},
		"more fields than it": {func(s *corev1.Secret) { own(s, `{"f:data":{"f:key":{},"f:old":{}}}`); s.Data["old"] = []byte("x") }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			live := created()
			test.change(live)
			// The API server has a newer version, so an attempt to write is a conflict.
			newer := live.DeepCopy()
			newer.ResourceVersion = "8"
			for _, known := range []*corev1.Secret{cached(live), cached(cached(live))} {
				got, err := apply.Secret(t.Context(), nil, server{live: newer}, known, desired())
				if test.wantWrite != apply.IsStale(err) || !test.wantWrite && got != known {
					t.Errorf("Secret() = %v, %v; want write %t", got, err, test.wantWrite)
				}
			}
		})
	}
}

func own(s *corev1.Secret, fields string) { s.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(fields) }

// An annotation that a user sets is never taken for a summary.
func TestSummaryIsNotForged(t *testing.T) {
	live := created()
	forged := cached(live).Annotations
	live.Data["key"] = []byte("x")
	live.Annotations = maps.Clone(forged)
	if apply.Summarized(live) {
		t.Error("a Secret with managed fields counts as summarized")
	}
	if got := cached(live); maps.Equal(got.Annotations, forged) {
		t.Error("Summary() used the annotation of a Secret with managed fields")
	}
	if !apply.Summarized(cached(live)) {
		t.Error("a cached Secret doesn't count as summarized")
	}
}

// Patch fails because the Secret was deleted after it was read.
func (server) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return apierrors.NewNotFound(secrets, obj.GetName())
}

// A Secret that is deleted while the operator changes it causes another reconcile, not an error.
func TestSecretDeletedMeanwhile(t *testing.T) {
	live := created()
	_, err := apply.Secret(t.Context(), server{live: live}, server{live: live}, cached(live), desired().WithData(map[string][]byte{"key": []byte("new")}))
	if !apply.IsStale(err) {
		t.Errorf("Secret() = %v, want an error that satisfies IsStale", err)
	}
}

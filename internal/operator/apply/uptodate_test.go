package apply_test

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

func desiredDeployment() *appsv1ac.DeploymentApplyConfiguration {
	pod := corev1ac.PodSpec().
		WithVolumes(corev1ac.Volume().WithName("cache").WithEmptyDir(corev1ac.EmptyDirVolumeSource())).
		WithContainers(corev1ac.Container().WithName("server").WithImage("server:v1").WithArgs("--verbose", "--port=8443").
			WithPorts(corev1ac.ContainerPort().WithName("https").WithContainerPort(8443).WithProtocol(corev1.ProtocolTCP)).
			WithResources(corev1ac.ResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0.5Gi")})))
	return appsv1ac.Deployment("a", "team").WithLabels(map[string]string{"role": "x"}).WithFinalizers("example.com/hold").
		WithSpec(appsv1ac.DeploymentSpec().WithSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{"app": "a"})).
			WithTemplate(corev1ac.PodTemplateSpec().WithSpec(pod)))
}

// appliedDeployment returns what the API server stores after the operator applied desiredDeployment, and
// another manager added a container.
func appliedDeployment() *appsv1.Deployment {
	replicas := int32(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "team", UID: "u", ResourceVersion: "7", Generation: 1,
			Labels: map[string]string{"role": "x", "foreign": "y"}, Finalizers: []string{"example.com/foreign", "example.com/hold"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:foreign":{}}}}`)},
				{Manager: v1beta1.FieldOwner, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{
					"f:metadata":{"f:labels":{"f:role":{}},"f:finalizers":{"v:\"example.com/hold\"":{}}},
					"f:spec":{"f:selector":{},"f:template":{"f:spec":{
						"f:volumes":{"k:{\"name\":\"cache\"}":{".":{},"f:name":{},"f:emptyDir":{}}},
						"f:containers":{"k:{\"name\":\"server\"}":{".":{},"f:name":{},"f:image":{},"f:args":{},
							"f:ports":{"k:{\"containerPort\":8443,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:containerPort":{}}},
							"f:resources":{"f:requests":{"f:memory":{}}}}}}}}}`)},
			},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyAlways,
				Volumes:       []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				Containers: []corev1.Container{
					{Name: "foreign", Image: "sidecar:v1"},
					{
						Name: "server", Image: "server:v1", Args: []string{"--verbose", "--port=8443"}, ImagePullPolicy: corev1.PullAlways,
						Ports:     []corev1.ContainerPort{{Name: "https", ContainerPort: 8443, Protocol: corev1.ProtocolTCP}},
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}},
					},
				},
			}},
		},
	}
}

// writes counts the applied objects.
type writes struct {
	client.Client

	n int
}

func (w *writes) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	w.n++
	return nil
}

// An object is written if, and only if, the fields that the operator owns differ from the desired ones.
func TestObjectIsWrittenOnlyIfOwnedFieldsDiffer(t *testing.T) {
	container := func(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[1] }
	tests := map[string]struct {
		change    func(*appsv1.Deployment)
		wantWrite bool
	}{
		"owned by an update only":         {func(d *appsv1.Deployment) { d.ManagedFields[1].Operation = metav1.ManagedFieldsOperationUpdate }, true},
		"unchanged":                       {func(*appsv1.Deployment) {}, false},
		"foreign label removed":           {func(d *appsv1.Deployment) { delete(d.Labels, "foreign") }, false},
		"field of owned element, foreign": {func(d *appsv1.Deployment) { container(d).WorkingDir = "/" }, false},
		"label":                           {func(d *appsv1.Deployment) { d.Labels["role"] = "y" }, true},
		"finalizer removed":               {func(d *appsv1.Deployment) { d.Finalizers = d.Finalizers[:1] }, true},
		"atomic list":                     {func(d *appsv1.Deployment) { container(d).Args = []string{"--port=8443", "--verbose"} }, true},
		"element with two keys":           {func(d *appsv1.Deployment) { container(d).Ports[0].Name = "http" }, true},
		"quantity": {func(d *appsv1.Deployment) {
			container(d).Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
		}, true},
		"taken over by another": {func(d *appsv1.Deployment) { d.ManagedFields[1].Manager = "kubectl" }, true},
		"more fields than desired": {func(d *appsv1.Deployment) {
			own := d.ManagedFields[1].FieldsV1
			own.SetRawString(strings.Replace(own.GetRawString(), `"f:spec":{`, `"f:spec":{"f:replicas":{},`, 1))
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			live := appliedDeployment()
			test.change(live)
			w := &writes{}
			testkit.Do(t, apply.Object(t.Context(), w, live, desiredDeployment()))
			if (w.n > 0) != test.wantWrite {
				t.Errorf("%d writes, want one: %t", w.n, test.wantWrite)
			}
		})
	}
}

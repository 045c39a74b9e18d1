package tokenservice

import (
	"crypto/rand"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func instance(t *testing.T, more string) *config.Instance {
	t.Helper()
	i := testkit.Value(config.Parse([]byte("apiVersion: config.realmkeeper.dev/v1beta1\nkind: InstanceConfiguration\ninstanceDomain: example.com\nsecurity: {defaultTokenLifetime: 5m}\n" + more)))(t)
	i.SystemNamespace, i.RecordsNamespace = "system", "records"
	return i
}

func decided(t *testing.T, seen observed, i *config.Instance, at time.Time) decision {
	t.Helper()
	return testkit.Value(decide(seen, i, "image:1", at, rand.Reader))(t)
}

// settled returns the observed state after the certificates of a decision are written.
func settled(t *testing.T, d decision) observed {
	t.Helper()
	return observed{
		authority: secretOf(t, d.plan.Secret("system", nil)),
		serving:   secretOf(t, pki.ServingSecret("system", *d.serving, nil)),
	}
}

func secretOf(t *testing.T, desired *corev1ac.SecretApplyConfiguration) *corev1.Secret {
	t.Helper()
	return testkit.Value(apply.Convert[corev1.Secret](desired))(t)
}

func TestObjectsFollowTheConfiguration(t *testing.T) {
	single := decided(t, observed{}, instance(t, "tokenServer: {replicas: 1}"), now)
	if single.disruptionBudget != nil {
		t.Error("single replica has a PodDisruptionBudget, which would block its eviction")
	}
	defaults := decided(t, observed{}, instance(t, ""), now)
	if defaults.disruptionBudget == nil {
		t.Error("two replicas have no PodDisruptionBudget")
	}
	if args := defaults.deployment.Spec.Template.Spec.Containers[0].Args; slices.Contains(args, "--debug") {
		t.Errorf("token servers log at debug level by default: %v", args)
	}

	d := decided(t, observed{}, instance(t, `
tls: {secretName: api-tls}
logging: {level: debug}
commonLabels: {team: platform, cost-center: a0, app.kubernetes.io/name: other}
tokenServer:
  replicas: 3
  imagePullSecrets: [{name: registry}]
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}
  resources: {limits: {memory: 1Gi}}
  nodeSelector: {disk: ssd}
  priorityClassName: high
  podAnnotations: {team: platform}
  podLabels: {cost-center: a1, app.kubernetes.io/component: other}
  podSecurityContext: {fsGroup: 1000}
  securityContext: {runAsUser: 1000}
  extraEnv: [{name: OTEL_EXPORTER_OTLP_HEADERS, valueFrom: {secretKeyRef: {name: collector, key: headers}}}]
  extraArgs: [--drain-delay=20s]
  audit: None
  tracing: {endpoint: "http://collector:4318", samplePercentage: 5}
  trustedProxies: [10.0.0.0/8, "fd00::/8"]
  proxyProtocolFrom: [10.1.0.0/16]
  passthroughProxies: [10.2.0.0/16, "fd01::/64"]
  maxStaleness: 10m
  tolerations: [{key: dedicated, operator: Exists}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
`), now)
	if d.plan.Authority != nil || d.serving != nil || d.caBundle != nil || !d.next.IsZero() {
		t.Error("certificate issued although TLS is not managed")
	}
	spec, template := d.deployment.Spec, d.deployment.Spec.Template
	pod := template.Spec
	wantLabels := ownLabels()
	wantLabels["team"], wantLabels["cost-center"] = "platform", "a1"
	if !maps.Equal(template.Labels, wantLabels) {
		t.Errorf("Pods have the labels %v, want %v", template.Labels, wantLabels)
	}
	wantLabels["cost-center"] = "a0"
	for _, got := range []map[string]string{d.deployment.Labels, d.service.Labels, d.networkPolicy.Labels, d.disruptionBudget.Labels} {
		if !maps.Equal(got, wantLabels) {
			t.Errorf("an object has the labels %v, want %v", got, wantLabels)
		}
	}
	if !maps.Equal(spec.Selector.MatchLabels, selector()) {
		t.Errorf("the selector, which must not change, is %v", spec.Selector.MatchLabels)
	}
	if *pod.SecurityContext.FSGroup != 1000 || !*pod.SecurityContext.RunAsNonRoot || *pod.Containers[0].SecurityContext.RunAsUser != 1000 || !*pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("unexpected security contexts %+v and %+v", pod.SecurityContext, pod.Containers[0].SecurityContext)
	}
	if e := pod.Containers[0].Env; *e[len(e)-1].ValueFrom.SecretKeyRef.Name != "collector" {
		t.Errorf("the additional variable is missing in %+v", e)
	}
	if *spec.Replicas != 3 || *pod.PriorityClassName != "high" || pod.NodeSelector["disk"] != "ssd" ||
		template.Annotations["team"] != "platform" || *pod.Tolerations[0].Key != "dedicated" ||
		*pod.TopologySpreadConstraints[0].TopologyKey != "zone" || *pod.Volumes[0].Secret.SecretName != "api-tls" ||
		*pod.Containers[0].Image != "image:1" || pod.Containers[0].Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("Deployment does not match the configuration: %+v", pod)
	}
	environment := map[string]string{}
	for _, e := range pod.Containers[0].Env {
		if e.Value != nil {
			environment[*e.Name] = *e.Value
		}
	}
	if environment["OTEL_EXPORTER_OTLP_ENDPOINT"] != "http://collector:4318" || environment["OTEL_TRACES_SAMPLER_ARG"] != "0.05" {
		t.Errorf("unexpected environment: %v", environment)
	}
	for _, arg := range []string{
		"--trusted-proxies=10.0.0.0/8,fd00::/8", "--proxy-protocol-from=10.1.0.0/16", "--passthrough-proxies=10.2.0.0/16,fd01::/64", "--audit-log=", "--max-staleness=10m0s", "--debug", "--drain-delay=20s",
	} {
		if args := pod.Containers[0].Args; !slices.Contains(args, arg) {
			t.Errorf("argument %s is missing: %v", arg, args)
		}
	}
	if size := pod.Volumes[1].EmptyDir.SizeLimit; size.String() != "512Mi" {
		t.Errorf("the volume for records may use %s, want half of the memory limit, 512Mi", size)
	}
	if *pod.ImagePullSecrets[0].Name != "registry" ||
		*pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey != "zone" {
		t.Errorf("unexpected image pull secrets %v or affinity %v", pod.ImagePullSecrets, pod.Affinity)
	}
}

// The replicas come from the configuration or the scale subresource, whichever changed last.
func TestLatestReplicasTakePrecedence(t *testing.T) {
	two := instance(t, "tokenServer: {replicas: 2}")
	one := instance(t, "tokenServer: {replicas: 1}")
	live := func(replicas int32, configured, subresource string) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		d.Annotations = map[string]string{"auth.realmkeeper.dev/configured-replicas": configured}
		d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "autoscaler", Subresource: subresource}}
		d.Spec.Replicas = &replicas
		return d
	}
	for name, test := range map[string]struct {
		live                 *appsv1.Deployment
		instance             *config.Instance
		wantApplied          int32 // 0: not applied
		wantDisruptionBudget bool
	}{
		"changed without scale subresource": {live(5, "2", ""), two, 2, true},
		"scaled to one":                     {live(1, "2", "scale"), two, 0, false},
		"configured to one, then scaled":    {live(3, "1", "scale"), one, 0, true},
		"scaled, then configured":           {live(5, "3", "scale"), two, 2, true},
		"scaled, then configured to one":    {live(5, "2", "scale"), one, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := decided(t, observed{deployment: test.live}, test.instance, now)
			applied := int32(0)
			if d.deployment.Spec.Replicas != nil {
				applied = *d.deployment.Spec.Replicas
			}
			if applied != test.wantApplied || (d.disruptionBudget != nil) != test.wantDisruptionBudget {
				t.Errorf("applied replicas %d and PodDisruptionBudget %t, want %d and %t",
					applied, d.disruptionBudget != nil, test.wantApplied, test.wantDisruptionBudget)
			}
		})
	}
}

func podSpecOf(t *testing.T, more string) corev1.PodSpec {
	t.Helper()
	deployment := testkit.Value(apply.Convert[appsv1.Deployment](deployment(nil, instance(t, more), "image:1")))(t)
	return deployment.Spec.Template.Spec
}

// The Security Context Constraints restricted-v2 of OpenShift accept the Pods, because they don't set a
// user or group: OpenShift adds those of the namespace.
func TestDefaultsFitRestrictedV2(t *testing.T) {
	spec := podSpecOf(t, "keyEncryption: {kms: {image: \"kms:1\"}}")
	testkit.Diff(t, "Pod security context", &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}, spec.SecurityContext)
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		testkit.Diff(t, "security context of "+container.Name, &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}, container.SecurityContext)
	}
	for _, volume := range spec.Volumes {
		if volume.Secret == nil && volume.EmptyDir == nil {
			t.Errorf("restricted-v2 may not allow the volume %+v", volume)
		}
	}
}

func TestKMSPluginIsASidecar(t *testing.T) {
	spec := podSpecOf(t, `keyEncryption: {kms: {image: "kms:1", args: [--key=a], env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}], volumes: [{name: pin, secret: {secretName: pin}}], volumeMounts: [{name: pin, mountPath: /pin}], timeout: 2s}}`)
	if len(spec.InitContainers) != 1 || len(spec.Containers) != 1 {
		t.Fatalf("got %d init containers and %d containers", len(spec.InitContainers), len(spec.Containers))
	}
	plugin, server := &spec.InitContainers[0], &spec.Containers[0]
	if plugin.RestartPolicy == nil || *plugin.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Error("the plugin is not a sidecar")
	}
	if plugin.Image != "kms:1" || !slices.Equal(plugin.Args, []string{"--key=a"}) || plugin.Env[0].ValueFrom.FieldRef.APIVersion != "v1" {
		t.Errorf("the plugin is %+v", plugin)
	}
	testkit.Diff(t, "security context of the plugin", server.SecurityContext, plugin.SecurityContext)
	mounts := func(c *corev1.Container) []string {
		var paths []string
		for _, mount := range c.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("%s mounts volume %q, which doesn't exist", c.Name, mount.Name)
			}
			paths = append(paths, mount.MountPath)
		}
		return paths
	}
	if got := mounts(plugin); !slices.Equal(got, []string{"/var/run/realmkeeper/kms", "/pin"}) {
		t.Errorf("the plugin mounts %v", got)
	}
	if got := mounts(server); !slices.Contains(got, "/var/run/realmkeeper/kms") || slices.Contains(got, "/pin") {
		t.Errorf("the token server mounts %v", got)
	}
	for _, want := range []string{"--kms-socket=/var/run/realmkeeper/kms/kms.sock", "--kms-timeout=2s"} {
		if !slices.Contains(server.Args, want) {
			t.Errorf("the token server's arguments lack %s: %v", want, server.Args)
		}
	}
}

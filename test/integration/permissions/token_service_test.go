package permissions_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// deployment returns a Deployment that runs no Pods.
func deployment(namespace, name string, change func(*corev1.PodSpec)) *appsv1.Deployment {
	labels := map[string]string{"app": "test"}
	d := &appsv1.Deployment{ObjectMeta: key(namespace, name), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod(namespace, name).Spec},
	}}
	d.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	d.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}
	if change != nil {
		change(&d.Spec.Template.Spec)
	}
	return d
}

const (
	otherAccount   = deniedByPolicy + "The Realmkeeper operator can run Pods only with the service account realmkeeper-token-server."
	accessToNode   = deniedByPolicy + "The Realmkeeper operator can run Pods only without host namespaces and with no volumes other than secret, configMap, and emptyDir."
	chosenNode     = deniedByPolicy + "The Realmkeeper operator can run Pods only without nodeName, hostPort, and hostIP, so that the scheduler chooses the node and its ports stay free."
	fromNode       = deniedByPolicy + "The Realmkeeper operator can run Pods only with probes and lifecycle hooks that connect to the Pod itself, so without host."
	asRoot         = deniedByPolicy + "The Realmkeeper operator can run Pods only with runAsNonRoot, and no container as root."
	unconfined     = deniedByPolicy + "The Realmkeeper operator can run Pods only with a seccomp profile, and neither the Pod nor a container can have seLinuxOptions or the seccomp or AppArmor profile Unconfined."
	morePrivileges = deniedByPolicy + "The Realmkeeper operator can run containers only without privilege escalation and additional capabilities."
	longStop       = deniedByPolicy + "The Realmkeeper operator can run Pods only with a terminationGracePeriodSeconds of at most 30."
	unknown        = deniedByPolicy + "The Realmkeeper operator can run only the container token-server and the init container kms-plugin."
)

func testOperatorRunsOnlyTokenServers(t *testing.T, s *site) {
	inst, operator, tenant := s.inst, s.operator, s.inst.Env.Namespace(t)
	servers := &appsv1.Deployment{ObjectMeta: key(inst.Namespace, config.TokenServiceName)}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(servers), servers); err != nil {
		t.Fatal(err)
	}
	inst.StopOperator(t) // It would restore what this test deletes.

	asAdmin := func(p *corev1.PodSpec) { p.ServiceAccountName, p.DeprecatedServiceAccount = initialAdmin, initialAdmin }
	change := func(f func(*corev1.PodSpec)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			changed := servers.DeepCopy()
			f(&changed.Spec.Template.Spec)
			return c.Patch(ctx, changed, client.MergeFrom(servers))
		}
	}
	volume := func(source corev1.VolumeSource) func(context.Context, client.Client) error {
		return change(func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "new", VolumeSource: source})
		})
	}
	security := func(f func(*corev1.SecurityContext)) func(context.Context, client.Client) error {
		return change(func(p *corev1.PodSpec) { f(p.Containers[0].SecurityContext) })
	}
	podSecurity := func(f func(*corev1.PodSecurityContext)) func(context.Context, client.Client) error {
		return change(func(p *corev1.PodSpec) { f(p.SecurityContext) })
	}
	initContainer := func(f func(*corev1.Container)) func(context.Context, client.Client) error {
		return change(func(p *corev1.PodSpec) {
			added := corev1.Container{Name: config.KMSName, Image: "realmkeeper:test", SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}}
			f(&added)
			p.InitContainers = append(p.InitContainers, added)
		})
	}
	added := func(name string) corev1.Container {
		return corev1.Container{Name: name, Image: "realmkeeper:test", SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}}
	}
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}
	another := deniedByPolicy + "The Realmkeeper operator must not create Deployment " + inst.Namespace + "/another."
	deny(t, operator, map[string]attempt{
		"run another Deployment as the initial admin": {create(deployment(inst.Namespace, "another", asAdmin)), another},
		"run another Deployment":                      {create(deployment(inst.Namespace, "another", nil)), another},
		"run a Deployment in another namespace":       {create(deployment(tenant, config.TokenServiceName, nil)), noPermission},

		"run the token servers as the initial admin": {change(asAdmin), otherAccount},
		"run them as the initial admin by its deprecated field": {
			change(func(p *corev1.PodSpec) { p.ServiceAccountName, p.DeprecatedServiceAccount = "", initialAdmin }), otherAccount,
		},
		"run them as the default account": {
			change(func(p *corev1.PodSpec) { p.ServiceAccountName, p.DeprecatedServiceAccount = "", "" }), otherAccount,
		},
		"mount the node's file system": {volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), accessToNode},
		"mount another token": {
			volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{token}}}), accessToNode,
		},
		"use the node's network":   {change(func(p *corev1.PodSpec) { p.HostNetwork = true; p.Containers[0].Ports = nil }), accessToNode},
		"use the node's processes": {change(func(p *corev1.PodSpec) { p.HostPID = true }), accessToNode},
		"use the node's memory":    {change(func(p *corev1.PodSpec) { p.HostIPC = true }), accessToNode},
		"run a privileged container": {
			security(func(s *corev1.SecurityContext) { s.Privileged, s.AllowPrivilegeEscalation = new(true), nil }), morePrivileges,
		},
		"allow privilege escalation":             {security(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = new(true) }), morePrivileges},
		"leave privilege escalation unspecified": {security(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = nil }), morePrivileges},
		"add a capability":                       {security(func(s *corev1.SecurityContext) { s.Capabilities.Add = []corev1.Capability{"NET_ADMIN"} }), morePrivileges},
		"run a privileged init container": {
			initContainer(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)} }), morePrivileges,
		},

		"choose the node":            {change(func(p *corev1.PodSpec) { p.NodeName = "node" }), chosenNode},
		"use a port of the node":     {change(func(p *corev1.PodSpec) { p.Containers[0].Ports[0].HostPort = 443 }), chosenNode},
		"use an address of the node": {change(func(p *corev1.PodSpec) { p.Containers[0].Ports[0].HostIP = "127.0.0.1" }), chosenNode},
		"use a port of the node in an init container": {
			initContainer(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 443, HostPort: 443}} }), chosenNode,
		},

		"run on after the deletion": {change(func(p *corev1.PodSpec) { p.TerminationGracePeriodSeconds = new(int64(31)) }), longStop},

		"run another container": {change(func(p *corev1.PodSpec) { p.Containers = append(p.Containers, added("x")) }), unknown},
		"run another init container": {
			change(func(p *corev1.PodSpec) { p.InitContainers = append(p.InitContainers, added("x")) }), unknown,
		},
		"run the KMS plugin as a container": {
			change(func(p *corev1.PodSpec) { p.Containers = append(p.Containers, added(config.KMSName)) }), unknown,
		},
		"apply another container": {func(ctx context.Context, c client.Client) error {
			applied := appsv1ac.Deployment(servers.Name, servers.Namespace).WithSpec(appsv1ac.DeploymentSpec().WithTemplate(
				corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("x").WithImage("x").
					WithSecurityContext(corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false))))))
			return c.Apply(ctx, applied, client.FieldOwner("x"))
		}, unknown},

		"probe another host": {
			change(func(p *corev1.PodSpec) { p.Containers[0].ReadinessProbe.HTTPGet.Host = "127.0.0.1" }), fromNode,
		},
		"connect to another host in a hook": {
			initContainer(func(c *corev1.Container) {
				c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways) // hooks require it
				hook := corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "127.0.0.1", Port: intstr.FromInt32(80)}}
				c.Lifecycle = &corev1.Lifecycle{PreStop: &hook}
			}), fromNode,
		},

		"run as root":                   {podSecurity(func(s *corev1.PodSecurityContext) { s.RunAsUser = new(int64(0)) }), asRoot},
		"leave the user to the image":   {podSecurity(func(s *corev1.PodSecurityContext) { s.RunAsNonRoot = nil }), asRoot},
		"run a container as root":       {security(func(s *corev1.SecurityContext) { s.RunAsUser = new(int64(0)) }), asRoot},
		"let a container run as root":   {security(func(s *corev1.SecurityContext) { s.RunAsNonRoot = new(false) }), asRoot},
		"run an init container as root": {initContainer(func(c *corev1.Container) { c.SecurityContext.RunAsUser = new(int64(0)) }), asRoot},

		"run without a seccomp profile": {podSecurity(func(s *corev1.PodSecurityContext) { s.SeccompProfile = nil }), unconfined},
		"run without seccomp":           {podSecurity(func(s *corev1.PodSecurityContext) { s.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined }), unconfined},
		"run a container without seccomp": {
			security(func(s *corev1.SecurityContext) {
				s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
			}), unconfined,
		},
		"run an init container without seccomp": {initContainer(func(c *corev1.Container) {
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		}), unconfined},
		"run without AppArmor": {
			podSecurity(func(s *corev1.PodSecurityContext) {
				s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
			}), unconfined,
		},
		"run a container without AppArmor": {
			security(func(s *corev1.SecurityContext) {
				s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
			}), unconfined,
		},
		"run without AppArmor by an annotation": {
			patch(servers.DeepCopy(), `{"spec": {"template": {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/token-server": "unconfined"}}}}}`), unconfined,
		},
		"choose the SELinux label": {podSecurity(func(s *corev1.PodSecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} }), unconfined},
		"choose the SELinux label of a container": {
			security(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} }), unconfined,
		},
	})
	if err := operator.Delete(t.Context(), servers); err != nil {
		t.Errorf("Failed to delete the Deployment of the token servers: %v", err)
	}
	deny(t, operator, map[string]attempt{
		"create the token servers as the initial admin": {create(deployment(inst.Namespace, config.TokenServiceName, asAdmin)), otherAccount},
	})
	if err := operator.Create(t.Context(), deployment(inst.Namespace, config.TokenServiceName, nil)); err != nil {
		t.Errorf("Failed to create the Deployment of the token servers: %v", err)
	}
}

func testOperatorLeavesOtherObjectsAlone(t *testing.T, s *site) {
	inst, operator := s.inst, s.operator
	own := deployment(inst.Namespace, operatorAccount, nil)
	portal := &corev1.Service{ObjectMeta: key(inst.Namespace, "realmkeeper-portal"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
	network := &networkingv1.NetworkPolicy{ObjectMeta: key(inst.Namespace, "realmkeeper-deny")}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: key(inst.Namespace, operatorAccount)}
	inst.Create(t, own, portal, network, budget)

	want := func(verb, kind, name string) string {
		return deniedByPolicy + "The Realmkeeper operator must not " + verb + " " + kind + " " + inst.Namespace + "/" + name + "."
	}
	deny(t, operator, map[string]attempt{
		"delete the operator's Deployment": {remove(own), want("delete", "Deployment", operatorAccount)},
		"redirect the portal's Service":    {patch(portal, `{"spec": {"selector": {"app": "test"}}}`), want("update", "Service", portal.Name)},
		"delete a NetworkPolicy":           {remove(network), want("delete", "NetworkPolicy", network.Name)},
		"delete a PodDisruptionBudget":     {remove(budget), want("delete", "PodDisruptionBudget", operatorAccount)},
		"run a Pod":                        {create(pod(inst.Namespace, "new")), noPermission},
		"get a token of the initial admin": {func(ctx context.Context, c client.Client) error {
			account := &corev1.ServiceAccount{ObjectMeta: key(inst.Namespace, initialAdmin)}
			return c.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{})
		}, noPermission},
		"create a service account": {create(&corev1.ServiceAccount{ObjectMeta: key(inst.Namespace, "new")}), noPermission},
		"bind its own role": {create(&rbacv1.RoleBinding{
			ObjectMeta: key(inst.RecordsNamespace, "new"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: operatorAccount},
		}), noPermission},
		"change the binding of the token servers": {patch(&rbacv1.RoleBinding{ObjectMeta: key(inst.RecordsNamespace, config.TokenServiceName)}, `{"subjects": []}`), noPermission},
		"bind a cluster role": {create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "new"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		}), noPermission},
	})
}

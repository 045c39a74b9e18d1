package node

import (
	"context"
	"fmt"
	"net"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const dns = "coredns"

// corefile returns a configuration that serves only the names of the cluster, because there is
// no server to forward other names to.
func corefile() string {
	return fmt.Sprintf(`%[1]s:53 in-addr.arpa:53 ip6.arpa:53 {
    bind %[2]s
    errors
    kubernetes %[1]s in-addr.arpa ip6.arpa {
        kubeconfig %[3]s
        ttl 5
    }
}
.:53 {
    bind %[2]s
    errors
    template IN ANY {
        rcode NXDOMAIN
    }
}
`, domain, Address, kubeconfig(dns))
}

// startDNS starts CoreDNS as a process and returns when it resolves the kubernetes Service.
func (n *node) startDNS(ctx context.Context) error {
	return n.start(ctx, dns, binary(dns), []string{"-conf", configFile(dnsFile)}, func(ctx context.Context) error {
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(Address.String(), "53"))
		}
		resolver := net.Resolver{PreferGo: true, Dial: dial}
		_, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+domain+".")
		return err
	})
}

// allowDNS grants the CoreDNS user read access to the objects that have DNS names.
func (n *node) allowDNS(ctx context.Context) error {
	read := []string{"list", "watch"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: dnsUser},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services", "namespaces"}, Verbs: read},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: dnsUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: dnsUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: dnsUser}},
	}
	if _, err := n.clients.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("grant CoreDNS its permissions: %w", err)
	}
	if _, err := n.clients.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("grant CoreDNS its permissions: %w", err)
	}
	return nil
}

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

const (
	etcdName      = "etcd"
	apiServerName = "kube-apiserver"
	managerName   = "kube-controller-manager"

	// dataDir is the directory of etcd in Options.Dir.
	dataDir = "etcd"
)

// command returns the command that runs a binary.
func (c *ControlPlane) command(name string, args []string) process.Command {
	return process.Command{
		Name:   name,
		Path:   filepath.Join(c.options.BinDir, name),
		Args:   args,
		Dir:    c.options.Dir,
		Detach: c.options.Detach,
	}
}

func (c *ControlPlane) file(name string) string { return filepath.Join(c.options.Dir, name) }

// etcdCommand returns the command that runs etcd. It inherits the locks on the directory and
// on all ports, so the locks are held while etcd runs, even if the API server restarts.
func (c *ControlPlane) etcdCommand() process.Command {
	client := "http://" + c.ports.etcdClient.Address()
	peer := "http://" + c.ports.etcdPeer.Address()
	command := c.command(etcdName, []string{
		"--name=default",
		"--data-dir=" + c.file(dataDir),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		// The data doesn't have to survive a power failure, and syncing is most of the cost of a
		// write.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592", // 100,000 clients and their earlier versions exceed the default of 2 GiB
		"--log-level=warn",
	})
	command.Inherit = []*os.File{
		c.lock.File(), c.ports.etcdClient.Lock(), c.ports.etcdPeer.Lock(), c.ports.apiServer.Lock(),
	}
	return command
}

func (c *ControlPlane) apiServerCommand() process.Command {
	args := []string{
		"--etcd-servers=http://" + c.ports.etcdClient.Address(),
		fmt.Sprintf("--bind-address=%s", c.host()),
		fmt.Sprintf("--advertise-address=%s", c.host()),
		fmt.Sprintf("--secure-port=%d", c.ports.apiServer.Number()),
		"--cert-dir=" + c.options.Dir,
		"--tls-cert-file=" + c.file(servingCertFile),
		"--tls-private-key-file=" + c.file(servingKeyFile),
		"--token-auth-file=" + c.file(tokensFile),
		"--allow-privileged=true",
		"--profiling=false",
	}
	args = append(args, c.serviceAccounts()...)
	if c.options.Nodes == nil {
		args = append(args, withoutNodes()...)
	} else {
		args = append(args, c.withNodes()...)
	}
	if !c.options.ControllerManager {
		// The plugin rejects Pods in namespaces without a ServiceAccount, and only the
		// controller manager creates the default one.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if c.options.AuditLog != "" {
		args = append(args,
			"--audit-policy-file="+c.file(auditPolicyFile),
			"--audit-log-path="+c.options.AuditLog,
			// In megabytes: large, because tests count events, so the log must not be rotated.
			"--audit-log-maxsize=100000",
		)
	}
	if c.options.AuthenticationConfig != "" {
		args = append(args, "--authentication-config="+c.options.AuthenticationConfig)
	}
	for _, gate := range c.options.FeatureGates {
		args = append(args, "--feature-gates="+gate+"=true")
	}
	for _, api := range c.options.APIs {
		args = append(args, "--runtime-config="+api+"=true")
	}
	command := c.command(apiServerName, args)
	if c.options.Proxy != "" {
		// Requests to loopback addresses never use a proxy, so this affects only the issuers.
		command.Env = []string{"HTTPS_PROXY=" + c.options.Proxy, "NO_PROXY="}
	}
	return command
}

func (c *ControlPlane) managerCommand() process.Command {
	// There is no signing key for certificate requests.
	controllers := "*,-certificatesigningrequest-signing-controller"
	if c.options.Nodes == nil {
		// Without nodes, the controllers for nodes and volumes have nothing to do.
		controllers += ",-node-lifecycle-controller,-node-ipam-controller,-taint-eviction-controller" +
			",-persistentvolume-binder-controller,-persistentvolume-attach-detach-controller" +
			",-persistentvolume-expander-controller"
	}
	return c.command(managerName, []string{
		"--kubeconfig=" + c.file(managerKubeconfigFile),
		"--leader-elect=false",
		"--secure-port=0",
		"--root-ca-file=" + c.file(caFile),
		"--service-account-private-key-file=" + c.file(serviceAccountKeyFile),
		"--use-service-account-credentials",
		// The default limits delay the start by several seconds.
		"--kube-api-qps=1000",
		"--kube-api-burst=1000",
		"--controllers=" + controllers,
	})
}

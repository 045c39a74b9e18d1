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

	// dataDir is etcd's directory in Options.Dir.
	dataDir = "etcd"
)

// command runs one of the binaries.
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

// etcdCommand has etcd inherit the locks on the directory and on all ports, so that they
// are held as long as it lives; the API server may come and go meanwhile.
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
		// The data is worth nothing after a power cut, and syncing is most of the
		// cost of a write.
		"--unsafe-no-fsync",
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
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file(serviceAccountKeyFile),
		"--service-account-signing-key-file=" + c.file(serviceAccountKeyFile),
		"--allow-privileged=true",
		"--profiling=false",
	}
	if c.options.Nodes == nil {
		args = append(args, withoutNodes()...)
	} else {
		args = append(args, c.withNodes()...)
	}
	if !c.options.ControllerManager {
		// It refuses pods of a namespace without service account, and only the
		// controller manager makes one.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if c.options.AuditLog != "" {
		args = append(args,
			"--audit-policy-file="+c.file(auditPolicyFile),
			"--audit-log-path="+c.options.AuditLog,
			// In megabytes: whoever counts in the log wants it in one piece.
			"--audit-log-maxsize=100000",
		)
	}
	if c.options.AuthenticationConfig != "" {
		args = append(args, "--authentication-config="+c.options.AuthenticationConfig)
	}
	command := c.command(apiServerName, args)
	if c.options.Proxy != "" {
		// Loopback addresses, where all else is that it talks to, are never asked of a proxy.
		command.Env = []string{"HTTPS_PROXY=" + c.options.Proxy, "NO_PROXY="}
	}
	return command
}

func (c *ControlPlane) managerCommand() process.Command {
	// Nobody signs certificates for requests here.
	controllers := "*,-certificatesigningrequest-signing-controller"
	if c.options.Nodes == nil {
		// Nor is there anyone to serve for nodes and volumes.
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
		// The defaults spread the start over seconds to spare a shared API server.
		"--kube-api-qps=1000",
		"--kube-api-burst=1000",
		"--controllers=" + controllers,
	})
}

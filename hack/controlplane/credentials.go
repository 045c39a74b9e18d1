package controlplane

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The files in Options.Dir.
const (
	caFile                = "ca.crt"
	servingCertFile       = "apiserver.crt"
	servingKeyFile        = "apiserver.key"
	serviceAccountKeyFile = "service-account.key"
	tokensFile            = "tokens.csv"
	auditPolicyFile       = "audit-policy.yaml"
	kubeconfigFile        = "kubeconfig"
	managerKubeconfigFile = "kube-controller-manager.kubeconfig"
)

// auditPolicy leaves out the event of a request's arrival, so that a request is one
// line, or two if it is a watch.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// writeCredentials makes new keys and tokens, writes every file that the components
// read, and returns the administrator's configuration.
func writeCredentials(dir string, port int) (*rest.Config, error) {
	authority, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("make the API server's certificate: %w", err)
	}
	cert, key, err := authority.issueServing()
	if err != nil {
		return nil, fmt.Errorf("make the API server's certificate: %w", err)
	}
	serviceAccountKey, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make the service accounts' key: %w", err)
	}
	serviceAccountPEM, err := encodeKey(serviceAccountKey)
	if err != nil {
		return nil, fmt.Errorf("make the service accounts' key: %w", err)
	}

	server := fmt.Sprintf("https://127.0.0.1:%d", port)
	admin, manager := rand.Text(), rand.Text()
	adminKubeconfig, err := kubeconfig(server, authority.pem, "admin", admin)
	if err != nil {
		return nil, err
	}
	managerKubeconfig, err := kubeconfig(server, authority.pem, managerName, manager)
	if err != nil {
		return nil, err
	}
	tokens := fmt.Sprintf("%s,admin,admin,system:masters\n%s,system:%s,%s,\n", admin, manager, managerName, managerName)

	for name, content := range map[string][]byte{
		caFile:                authority.pem,
		servingCertFile:       cert,
		servingKeyFile:        key,
		serviceAccountKeyFile: serviceAccountPEM,
		tokensFile:            []byte(tokens),
		auditPolicyFile:       []byte(auditPolicy),
		kubeconfigFile:        adminKubeconfig,
		managerKubeconfigFile: managerKubeconfig,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("write credentials: %w", err)
		}
	}
	return &rest.Config{
		Host:            server,
		BearerToken:     admin,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority.pem},
		QPS:             -1,
	}, nil
}

func kubeconfig(server string, ca []byte, user, token string) ([]byte, error) {
	const name = "realmkeeper"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of %s: %w", user, err)
	}
	return content, nil
}

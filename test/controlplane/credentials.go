package controlplane

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The files in Options.Dir.
const (
	caFile                = "ca.crt"
	servingCertFile       = "apiserver.crt"
	servingKeyFile        = "apiserver.key"
	serviceAccountKeyFile = "service-account.key" // signs tokens
	kubeletClientCertFile = "kubelet-client.crt"
	kubeletClientKeyFile  = "kubelet-client.key"
	tokensFile            = "tokens.csv"
	auditPolicyFile       = "audit-policy.yaml"
	kubeconfigFile        = "kubeconfig"
	managerKubeconfigFile = "kube-controller-manager.kubeconfig"
)

// auditPolicy omits the event for a received request, so that each request is one line, or
// two for a watch.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// writeCredentials generates keys and tokens, writes all files that the components read, and
// returns the configuration of the administrator.
func (c *ControlPlane) writeCredentials() (*rest.Config, error) {
	authority, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("create a certificate authority: %w", err)
	}
	files, err := c.certificates(authority)
	if err != nil {
		return nil, err
	}
	users := []User{
		{Name: "admin", Groups: []string{"system:masters"}, Kubeconfig: kubeconfigFile},
		{Name: "system:" + managerName, Kubeconfig: managerKubeconfigFile},
	}
	if c.options.Nodes != nil {
		users = append(users, c.options.Nodes.Users...)
	}
	server := "https://" + netip.AddrPortFrom(c.host(), uint16(c.ports.apiServer.Number())).String()
	var tokens bytes.Buffer
	var admin string
	for _, user := range users {
		token := rand.Text()
		if user.Kubeconfig == kubeconfigFile {
			admin = token
		}
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", token, user.Name, user.Name, strings.Join(user.Groups, ","))
		if files[user.Kubeconfig], err = kubeconfig(server, authority.pem, user.Name, token); err != nil {
			return nil, err
		}
	}
	files[tokensFile] = tokens.Bytes()
	files[auditPolicyFile] = []byte(auditPolicy)

	for name, content := range files {
		if err := os.WriteFile(c.file(name), content, 0o600); err != nil {
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

// certificates generates keys and certificates and returns them by file name.
func (c *ControlPlane) certificates(authority *authority) (map[string][]byte, error) {
	cert, key, err := authority.issueServing(c.names())
	if err != nil {
		return nil, fmt.Errorf("create the serving certificate of the API server: %w", err)
	}
	clientCert, clientKey, err := authority.issueKubeletClient()
	if err != nil {
		return nil, fmt.Errorf("create the kubelet client certificate of the API server: %w", err)
	}
	serviceAccountKey, err := NewServiceAccountKey()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		serviceAccountKeyFile: serviceAccountKey,
		caFile:                authority.pem,
		servingCertFile:       cert,
		servingKeyFile:        key,
		kubeletClientCertFile: clientCert,
		kubeletClientKeyFile:  clientKey,
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
		return nil, fmt.Errorf("write the kubeconfig for %s: %w", user, err)
	}
	return content, nil
}

package kubectlplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Objects of an installation. The ClusterRoleBinding names its namespaces, and the ConfigMap contains
// the instance configuration.
const (
	instanceBinding = "realmkeeper-instance"
	instanceConfig  = "realmkeeper-config"
	instanceFile    = "config.yaml"
)

// installation is the installation of Realmkeeper in a cluster.
type installation struct {
	systemNamespace  string // empty if only the records namespace is known
	recordsNamespace string
	// serviceURL is the base URL of the issuers, such as https://api.example.com. It is empty if it is
	// unknown.
	serviceURL string
}

var errNoInstance = errors.New("no instance of Realmkeeper was found")

// installation finds the installation in the cluster. recordsNamespace and serviceURL are values from
// flags, or empty.
func (c *cluster) installation(ctx context.Context, recordsNamespace, serviceURL string) (*installation, error) {
	found := &installation{recordsNamespace: recordsNamespace}
	binding := &rbacv1.ClusterRoleBinding{}
	err := c.Get(ctx, client.ObjectKey{Name: instanceBinding}, binding)
	system, records, ok := strings.Cut(binding.RoleRef.Name, ":")
	switch {
	case recordsNamespace != "":
		found.systemNamespace = system
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: ClusterRoleBinding %s is missing; check the context of your kubeconfig, install Realmkeeper, or set --records-namespace", errNoInstance, instanceBinding)
	case err != nil:
		return nil, fmt.Errorf("reading ClusterRoleBinding %s, which names the records namespace; set --records-namespace if you may not read it: %w", instanceBinding, err)
	case !ok:
		return nil, fmt.Errorf("%w: ClusterRoleBinding %s does not name the records namespace; set --records-namespace", errNoInstance, instanceBinding)
	default:
		found.systemNamespace, found.recordsNamespace = system, records
	}
	return found, c.findServiceURL(ctx, found, serviceURL)
}

var errServiceURL = errors.New("wrong --service-url")

// findServiceURL finds the base URL of the issuers: from the instance configuration, then from a
// Realm, then from the flag.
func (c *cluster) findServiceURL(ctx context.Context, found *installation, flag string) (err error) {
	flag = strings.TrimSuffix(flag, "/")
	if found.serviceURL, err = c.configuredURL(ctx, found.systemNamespace); err != nil {
		return err
	}
	if found.serviceURL == "" {
		if found.serviceURL, err = c.reportedURL(ctx); err != nil {
			return err
		}
	}
	if found.serviceURL == "" {
		found.serviceURL = flag
	}
	if flag != "" && flag != found.serviceURL {
		return fmt.Errorf("%w: this cluster serves %s; omit the flag", errServiceURL, found.serviceURL)
	}
	return nil
}

// configuredURL returns the URL in the instance configuration. It is empty if the user may not read
// the configuration.
func (c *cluster) configuredURL(ctx context.Context, namespace string) (string, error) {
	if namespace == "" {
		return "", nil
	}
	config := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: instanceConfig}, config)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, instanceConfig, err)
	}
	var instance struct {
		InstanceDomain string `json:"instanceDomain"`
		ExternalPort   int    `json:"externalPort"`
	}
	if err := yaml.Unmarshal([]byte(config.Data[instanceFile]), &instance); err != nil || instance.InstanceDomain == "" {
		return "", nil //nolint:nilerr // The operator reports an invalid configuration.
	}
	host := "api." + instance.InstanceDomain
	if instance.ExternalPort != 0 && instance.ExternalPort != 443 {
		host = net.JoinHostPort(host, strconv.Itoa(instance.ExternalPort))
	}
	return "https://" + host, nil
}

// reportedURL returns the URL in the status of a Realm. It is empty if no Realm has an issuer yet.
func (c *cluster) reportedURL(ctx context.Context) (string, error) {
	realms := &v1beta1.RealmList{}
	if err := c.List(ctx, realms, client.Limit(pageSize)); err != nil {
		return "", describeError(err, "listing Realms")
	}
	for i := range realms.Items {
		if base, ok := strings.CutSuffix(realms.Items[i].Status.Issuer, "/"+realms.Items[i].Name); ok {
			return base, nil
		}
	}
	return "", nil
}

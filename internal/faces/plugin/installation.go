package plugin

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

// Objects of an installation, which exist before the operator has created the Instance. The
// ClusterRoleBinding names its namespaces, and the ConfigMap contains the instance configuration. Unlike the
// Instance, which may be one of an earlier installation, they are always those of the current one.
const (
	instanceBinding = "realmkeeper-instance"
	instanceConfig  = "realmkeeper-config"
	instanceFile    = "config.yaml"
)

// Labels of the Deployments.
const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"
)

// readInstance reads the Instance.
func (c *cluster) readInstance(ctx context.Context) (*v1beta1.Instance, error) {
	found := &v1beta1.Instance{}
	return found, c.Get(ctx, client.ObjectKey{Name: v1beta1.InstanceName}, found)
}

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
	instance, _ := c.readInstance(ctx) // It only replaces what can't be read otherwise.
	system, records, err := c.namespaces(ctx, &instance.Status)
	switch {
	case recordsNamespace != "":
		found.systemNamespace = system
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: ClusterRoleBinding %s is missing; check the context of your kubeconfig, install Realmkeeper, or set --records-namespace", errNoInstance, instanceBinding)
	case err != nil:
		return nil, fmt.Errorf("reading ClusterRoleBinding %s, which names the records namespace; set --records-namespace if you may not read it: %w", instanceBinding, err)
	case records == "":
		return nil, fmt.Errorf("%w: ClusterRoleBinding %s does not name the records namespace; set --records-namespace", errNoInstance, instanceBinding)
	default:
		found.systemNamespace, found.recordsNamespace = system, records
	}
	return found, c.findServiceURL(ctx, found, &instance.Status, serviceURL)
}

// namespaces returns the system namespace and the records namespace, or empty strings if the
// ClusterRoleBinding doesn't name them. Users who may not read it get those of the Instance.
func (c *cluster) namespaces(ctx context.Context, instance *v1beta1.InstanceStatus) (system, records string, err error) {
	binding := &rbacv1.ClusterRoleBinding{}
	err = c.Get(ctx, client.ObjectKey{Name: instanceBinding}, binding)
	if apierrors.IsForbidden(err) && instance.SystemNamespace != "" {
		return instance.SystemNamespace, instance.RecordsNamespace, nil
	}
	system, records, _ = strings.Cut(binding.RoleRef.Name, ":")
	return system, records, err
}

var errServiceURL = errors.New("wrong --service-url")

// findServiceURL finds the base URL of the issuers: from the instance configuration, then from the
// Instance, then from the flag.
func (c *cluster) findServiceURL(ctx context.Context, found *installation, instance *v1beta1.InstanceStatus, flag string) (err error) {
	flag = strings.TrimSuffix(flag, "/")
	if found.serviceURL, err = c.configuredURL(ctx, found.systemNamespace); err != nil {
		return err
	}
	if found.serviceURL == "" && (found.systemNamespace == "" || found.systemNamespace == instance.SystemNamespace) {
		found.serviceURL = instance.ServiceURL
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

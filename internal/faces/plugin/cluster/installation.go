package cluster

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
	InstanceBinding = "realmkeeper-instance"
	instanceConfig  = "realmkeeper-config"
	InstanceFile    = "config.yaml"
)

// Labels of the Deployments.
const (
	NameLabel      = "app.kubernetes.io/name"
	ComponentLabel = "app.kubernetes.io/component"
)

// ReadInstance reads the Instance.
func (c *Cluster) ReadInstance(ctx context.Context) (*v1beta1.Instance, error) {
	found := &v1beta1.Instance{}
	return found, c.Get(ctx, client.ObjectKey{Name: v1beta1.InstanceName}, found)
}

// Installation is the installation of Realmkeeper in a cluster.
type Installation struct {
	SystemNamespace  string // empty if only the records namespace is known
	RecordsNamespace string
	// ServiceURL is the base URL of the issuers, such as https://api.example.com. It is empty if it is
	// unknown.
	ServiceURL string
}

// ErrNoInstance means that Realmkeeper isn't installed.
var ErrNoInstance = errors.New("no instance of Realmkeeper was found")

// FindInstallation finds the installation in the cluster. recordsNamespace and serviceURL are values from
// flags, or empty.
func (c *Cluster) FindInstallation(ctx context.Context, recordsNamespace, serviceURL string) (*Installation, error) {
	found := &Installation{RecordsNamespace: recordsNamespace}
	instance, _ := c.ReadInstance(ctx) // It only replaces what can't be read otherwise.
	system, records, err := c.Namespaces(ctx, &instance.Status)
	switch {
	case recordsNamespace != "":
		found.SystemNamespace = system
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: ClusterRoleBinding %s is missing; check the context of your kubeconfig, install Realmkeeper, or set --records-namespace", ErrNoInstance, InstanceBinding)
	case err != nil:
		return nil, fmt.Errorf("reading ClusterRoleBinding %s, which names the records namespace; set --records-namespace if you may not read it: %w", InstanceBinding, err)
	case records == "":
		return nil, fmt.Errorf("%w: ClusterRoleBinding %s does not name the records namespace; set --records-namespace", ErrNoInstance, InstanceBinding)
	default:
		found.SystemNamespace, found.RecordsNamespace = system, records
	}
	return found, c.findServiceURL(ctx, found, &instance.Status, serviceURL)
}

// Namespaces returns the system namespace and the records namespace, or empty strings if the
// ClusterRoleBinding doesn't name them. Users who may not read it get those of the Instance.
func (c *Cluster) Namespaces(ctx context.Context, instance *v1beta1.InstanceStatus) (system, records string, err error) {
	binding := &rbacv1.ClusterRoleBinding{}
	err = c.Get(ctx, client.ObjectKey{Name: InstanceBinding}, binding)
	if apierrors.IsForbidden(err) && instance.SystemNamespace != "" {
		return instance.SystemNamespace, instance.RecordsNamespace, nil
	}
	system, records, _ = strings.Cut(binding.RoleRef.Name, ":")
	return system, records, err
}

var errServiceURL = errors.New("wrong --service-url")

// findServiceURL finds the base URL of the issuers: from the instance configuration, then from the
// Instance, then from the flag.
func (c *Cluster) findServiceURL(ctx context.Context, found *Installation, instance *v1beta1.InstanceStatus, flag string) (err error) {
	flag = strings.TrimSuffix(flag, "/")
	if found.ServiceURL, err = c.configuredURL(ctx, found.SystemNamespace); err != nil {
		return err
	}
	if found.ServiceURL == "" && (found.SystemNamespace == "" || found.SystemNamespace == instance.SystemNamespace) {
		found.ServiceURL = instance.ServiceURL
	}
	if found.ServiceURL == "" {
		found.ServiceURL = flag
	}
	if flag != "" && flag != found.ServiceURL {
		return fmt.Errorf("%w: this cluster serves %s; omit the flag", errServiceURL, found.ServiceURL)
	}
	return nil
}

// configuredURL returns the URL in the instance configuration. It is empty if the user may not read
// the configuration.
func (c *Cluster) configuredURL(ctx context.Context, namespace string) (string, error) {
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
	if err := yaml.Unmarshal([]byte(config.Data[InstanceFile]), &instance); err != nil || instance.InstanceDomain == "" {
		return "", nil //nolint:nilerr // The operator reports an invalid configuration.
	}
	host := "api." + instance.InstanceDomain
	if instance.ExternalPort != 0 && instance.ExternalPort != 443 {
		host = net.JoinHostPort(host, strconv.Itoa(instance.ExternalPort))
	}
	return "https://" + host, nil
}

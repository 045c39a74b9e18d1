package operator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// The binding reserves the cluster for one instance.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,resourceNames=realmkeeper-instance,verbs=get

// instanceBinding is the name of the ClusterRoleBinding that reserves the cluster for one instance.
const instanceBinding = "realmkeeper-instance"

// ErrInstallation is returned if the operator must not start until a user has changed the
// installation. The error message describes the change.
var ErrInstallation = errors.New("installation")

// checkInstallation returns an error that wraps ErrInstallation if another instance has the cluster
// or if records are in the system namespace. The operator would give all Realms new keys because it
// looks for records only in its own records namespace.
func checkInstallation(ctx context.Context, reader client.Reader, instance *config.Instance) error {
	if err := checkInstance(ctx, reader, instance); err != nil {
		return err
	}
	return checkRecords(ctx, reader, instance)
}

// checkInstance checks that the cluster is reserved for this instance.
func checkInstance(ctx context.Context, reader client.Reader, instance *config.Instance) error {
	binding := &rbacv1.ClusterRoleBinding{}
	if err := reader.Get(ctx, client.ObjectKey{Name: instanceBinding}, binding); err != nil {
		return fmt.Errorf("reading ClusterRoleBinding %s, which is part of the installation: %w", instanceBinding, err)
	}
	if own := instance.SystemNamespace + ":" + instance.RecordsNamespace; binding.RoleRef.Name != own {
		return fmt.Errorf("%w: ClusterRoleBinding %s reserves this cluster for the instance %q (system namespace:records namespace), and this operator belongs to %q. "+
			"A cluster can have only one instance. Uninstall this one. "+
			"If this one replaces the other, uninstall the other and move its records here; then delete the ClusterRoleBinding if it still exists, and install this one again",
			ErrInstallation, instanceBinding, binding.RoleRef.Name, own)
	}
	return nil
}

// checkRecords checks that no records are in the system namespace.
func checkRecords(ctx context.Context, reader client.Reader, instance *config.Instance) error {
	records := &metav1.PartialObjectMetadataList{}
	records.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	from, to := instance.SystemNamespace, instance.RecordsNamespace
	if err := reader.List(ctx, records, client.InNamespace(from), client.HasLabels{v1beta1.RecordLabel}, client.Limit(1)); err != nil {
		return fmt.Errorf("listing the records in namespace %s: %w", from, err)
	}
	if len(records.Items) == 0 {
		return nil
	}
	all := "secrets --namespace " + from + " --selector " + v1beta1.RecordLabel
	return fmt.Errorf("%w: Secret %s in the system namespace %s is a record, and records must be in the records namespace %s. "+
		"To move all of them, run `kubectl get %s --output yaml | sed -e '/^    resourceVersion:/d' -e 's/^    namespace: %s$/    namespace: %s/' | kubectl create --filename - && kubectl delete %s`. "+
		"To discard them, so that Realms get new keys and ApiClients get new secrets, run `kubectl delete %s`",
		ErrInstallation, records.Items[0].Name, from, to, all, from, to, all, all)
}

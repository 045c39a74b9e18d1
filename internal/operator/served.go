package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// pollInterval is the interval at which named namespaces are read. A grant that selects namespaces by
// label takes effect with this delay.
const pollInterval = time.Minute

var errNothingServed = errors.New("no permission to read ApiClients in any namespace of watchNamespaces; create the namespaces and run helm upgrade")

// servedNamespaces returns the named namespaces in which the operator can read ApiClients. A named
// namespace that was deleted, and with it the operator's permissions there, must not prevent the
// operator from serving the others.
func servedNamespaces(ctx context.Context, reader client.Reader, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	var served []string
	for _, name := range names {
		switch err := listable(ctx, reader, name); {
		case apierrors.IsForbidden(err):
			ctrl.Log.Error(err, "Not serving a namespace without permissions; create it, run helm upgrade, and restart the operator", "namespace", name)
		case err != nil:
			return nil, fmt.Errorf("listing ApiClients in namespace %q: %w", name, err)
		default:
			served = append(served, name)
		}
	}
	if len(served) == 0 {
		return nil, errNothingServed
	}
	return served, nil
}

// listable returns the error of listing ApiClients in a namespace. If permissions are missing although
// the namespace exists, it waits for them, because new permissions take effect with a delay.
func listable(ctx context.Context, reader client.Reader, name string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, checkInterval, checkTimeout, true, func(ctx context.Context) (bool, error) {
		last = reader.List(ctx, &v1beta1.ApiClientList{}, client.InNamespace(name), client.Limit(1))
		if !apierrors.IsForbidden(last) {
			return true, nil
		}
		return apierrors.IsNotFound(reader.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})), nil
	})
	if last == nil {
		return err
	}
	return last
}

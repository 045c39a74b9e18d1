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

// How long to wait for new permissions in a namespace to take effect.
const (
	permissionTimeout  = time.Minute
	permissionInterval = 500 * time.Millisecond
)

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
		denial, err := denied(ctx, reader, name)
		switch {
		case err != nil:
			return nil, err
		case denial != nil:
			ctrl.Log.Error(denial, "Not serving a namespace without permissions; create it, run helm upgrade, and restart the operator", "namespace", name)
		default:
			served = append(served, name)
		}
	}
	if len(served) == 0 {
		return nil, errNothingServed
	}
	return served, nil
}

// denied returns the error with which the API server denies the operator to list the ApiClients in a namespace;
// nil if it doesn't. If the namespace exists, denied waits for the permissions, because new ones take effect with a
// delay. An API server that hasn't loaded any roles also denies reading the Namespace, which is an error.
func denied(ctx context.Context, reader client.Reader, name string) (denial, err error) {
	err = wait.PollUntilContextTimeout(ctx, permissionInterval, permissionTimeout, true, func(ctx context.Context) (bool, error) {
		denial = nil
		err := reader.List(ctx, &v1beta1.ApiClientList{}, client.InNamespace(name), client.Limit(1))
		if !apierrors.IsForbidden(err) {
			return true, err
		}
		denial = err
		err = reader.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if denial != nil && wait.Interrupted(err) {
		return denial, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checking the permissions in namespace %q: %w", name, err)
	}
	return denial, nil
}

package apiclient

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// gatherAccounts reads the UIDs of the service accounts that the spec names.
func (r *Reconciler) gatherAccounts(ctx context.Context, seen *observed) error {
	seen.accounts = map[string]types.UID{}
	for _, reference := range seen.client.Spec.ServiceAccounts {
		key := client.ObjectKey{Namespace: seen.client.Namespace, Name: reference.Name}
		account := accountMetadata()
		if err := r.Accounts.Get(ctx, key, account); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading ServiceAccount %s: %w", key, err)
		}
		if exists(account) {
			seen.accounts[reference.Name] = account.UID
		}
	}
	return nil
}

// exists reports whether a service account was read and isn't on its way out: the API server
// makes no more tokens for one that is.
func exists(account client.Object) bool {
	return account.GetUID() != "" && account.GetDeletionTimestamp().IsZero()
}

// serviceAccounts returns the accounts that exist, sorted by name.
func serviceAccounts(seen *observed) []record.ServiceAccount {
	var accounts []record.ServiceAccount
	for name, uid := range seen.accounts {
		accounts = append(accounts, record.ServiceAccount{Namespace: seen.client.Namespace, Name: name, UID: uid})
	}
	slices.SortFunc(accounts, func(a, b record.ServiceAccount) int { return strings.Compare(a.Name, b.Name) })
	return accounts
}

// missingAccounts returns the names of those that don't exist, sorted.
func missingAccounts(seen observed) []string {
	var missing []string
	for _, reference := range seen.client.Spec.ServiceAccounts {
		if _, ok := seen.accounts[reference.Name]; !ok {
			missing = append(missing, reference.Name)
		}
	}
	slices.Sort(missing)
	return missing
}

// serviceAccountExists wants one of the accounts, where the client can authenticate in no other way.
func serviceAccountExists(seen observed, _ *config.Instance) *condition.Result {
	spec := &seen.client.Spec
	missing := missingAccounts(seen)
	if len(missing) == 0 || len(missing) < len(spec.ServiceAccounts) || len(spec.PublicKeys) > 0 || spec.Secret != nil {
		return nil
	}
	return fault(v1alpha1.ReasonServiceAccountNotFound, "None of the service accounts of spec.serviceAccounts exists: %s. Create one in this namespace; this client then goes on by itself.", enumerate(missing))
}

// accountMetadata is for reading a service account without the rest.
func accountMetadata() *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	return metadata
}

// accountSource wakes the ApiClients that name a service account when it comes, goes, or is another.
func (r *Reconciler) accountSource() source.Source {
	return source.Kind(r.Accounts, client.Object(accountMetadata()), handler.EnqueueRequestsFromMapFunc(r.clientsOfAccount),
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || exists(e.ObjectOld) != exists(e.ObjectNew)
		}})
}

func (r *Reconciler) clientsOfAccount(ctx context.Context, account client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(account.GetNamespace()), client.MatchingFields{byAccount: account.GetName()})
}

// accountNames are what byAccount indexes.
func accountNames(obj client.Object) []string {
	c, ok := obj.(*v1alpha1.ApiClient)
	if !ok {
		return nil
	}
	var names []string
	for _, reference := range c.Spec.ServiceAccounts {
		names = append(names, reference.Name)
	}
	return names
}

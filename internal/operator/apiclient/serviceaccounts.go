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

// gatherAccounts reads the UIDs of the service accounts that the spec lists.
func (r *Reconciler) gatherAccounts(ctx context.Context, seen *observed) error {
	seen.accounts = map[string]types.UID{}
	for _, name := range listedAccounts(seen.client) {
		key := client.ObjectKey{Namespace: seen.client.Namespace, Name: name}
		account := accountMetadata()
		if err := r.Accounts.Get(ctx, key, account); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading ServiceAccount %s: %w", key, err)
		}
		if exists(account) {
			seen.accounts[name] = account.UID
		}
	}
	return nil
}

// exists reports whether a service account was found and is not being deleted. The API server
// doesn't issue tokens for an account that is being deleted.
func exists(account client.Object) bool {
	return account.GetUID() != "" && account.GetDeletionTimestamp().IsZero()
}

// serviceAccounts returns the existing accounts for the record, sorted by name.
func serviceAccounts(seen *observed) []record.ServiceAccount {
	var accounts []record.ServiceAccount
	for name, uid := range seen.accounts {
		accounts = append(accounts, record.ServiceAccount{Namespace: seen.client.Namespace, Name: name, UID: uid})
	}
	slices.SortFunc(accounts, func(a, b record.ServiceAccount) int { return strings.Compare(a.Name, b.Name) })
	return accounts
}

// missingAccounts returns the names of listed accounts that do not exist, sorted.
func missingAccounts(seen observed) []string {
	return slices.DeleteFunc(listedAccounts(seen.client), func(name string) bool {
		_, ok := seen.accounts[name]
		return ok
	})
}

// serviceAccountExists requires at least one of the listed accounts to exist if the client has no
// other way to authenticate.
func serviceAccountExists(seen observed, _ *config.Instance) *condition.Result {
	spec := &seen.client.Spec
	missing := missingAccounts(seen)
	if len(missing) == 0 || len(missing) < len(listedAccounts(seen.client)) ||
		len(spec.PublicKeys) > 0 || spec.Secret != nil || len(identities(&seen)) > 0 {
		return nil
	}
	return notReady(v1alpha1.ReasonServiceAccountNotFound, "None of the service accounts in spec.serviceAccounts and spec.federatedIdentities exists: %s. Create one in this namespace; the client is then reconciled automatically.", enumerate(missing))
}

// accountMetadata returns an object for reading only the metadata of a service account.
func accountMetadata() *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	return metadata
}

// accountSource enqueues the ApiClients that list a service account when it is created, deleted, or
// recreated with the same name.
func (r *Reconciler) accountSource() source.Source {
	return source.Kind(r.Accounts, client.Object(accountMetadata()), handler.EnqueueRequestsFromMapFunc(r.clientsOfAccount),
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || exists(e.ObjectOld) != exists(e.ObjectNew)
		}})
}

func (r *Reconciler) clientsOfAccount(ctx context.Context, account client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(account.GetNamespace()), client.MatchingFields{byAccount: account.GetName()})
}

// accountNames returns the index keys of byAccount.
func accountNames(obj client.Object) []string {
	c, ok := obj.(*v1alpha1.ApiClient)
	if !ok {
		return nil
	}
	return listedAccounts(c)
}

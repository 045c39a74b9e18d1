package backup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

// pageSize is the maximum number of objects that a list request returns.
const pageSize = 500

// EachObject calls visit for every object of the kind KindRealm or KindClient in the cluster. It reads
// them in pages. The objects keep fields that this version doesn't know.
func EachObject(ctx context.Context, c client.Reader, kind Kind, visit func(*unstructured.Unstructured) error) error {
	next := ""
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(string(kind) + "List"))
		if err := c.List(ctx, list, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("listing %ss: %w", kind, err)
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// EachRecord calls visit for every record of a kind in the records namespace. It reads them in pages.
func EachRecord(ctx context.Context, c client.Reader, namespace string, kind record.Kind, visit func(*corev1.Secret) error) error {
	next := ""
	for {
		list := &corev1.SecretList{}
		labels := client.MatchingLabels(record.Labels(kind))
		if err := c.List(ctx, list, client.InNamespace(namespace), labels, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("listing the records in namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

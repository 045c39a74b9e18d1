// Package describe describes API objects to users, in the portal and in the kubectl plugin.
package describe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Events returns at most limit Events about an object, the newest first. Their LastTimestamp is set, because not
// all programs that record Events set the same fields.
func Events(ctx context.Context, c client.Reader, object client.Object, limit int) ([]corev1.Event, error) {
	// Events about cluster-scoped objects are in the namespace "default".
	namespace := cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)
	list := &corev1.EventList{}
	err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": string(object.GetUID())})
	if err != nil {
		return nil, fmt.Errorf("listing Events: %w", err)
	}
	for i := range list.Items {
		list.Items[i].LastTimestamp = lastSeen(&list.Items[i])
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int {
		return cmp.Or(b.LastTimestamp.Compare(a.LastTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return list.Items[:min(len(list.Items), limit)], nil
}

func lastSeen(e *corev1.Event) metav1.Time {
	switch {
	case e.Series != nil:
		return metav1.Time(e.Series.LastObservedTime)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.Time(e.EventTime)
	}
	return e.CreationTimestamp
}

// Duration formats a duration without zero units, such as 1h30m. It returns an empty string for nil.
func Duration(d *v1beta1.Duration) string {
	if d == nil {
		return ""
	}
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// LastUse describes when a credential was last used: "this hour", or the number of whole hours or more
// according to ago. Recorded times are truncated to at least an hour, so a more exact text would be wrong.
func LastUse(at *metav1.Time, now time.Time, ago func(at, now time.Time) string) string {
	if at.IsZero() {
		return "never"
	}
	used, hour := at.UTC().Truncate(time.Hour), now.UTC().Truncate(time.Hour)
	if !used.Before(hour) {
		return "this hour"
	}
	return ago(used, hour)
}

// Namespaces describes the namespaces of a grant: "all", a label selector, or names.
func Namespaces(n *v1beta1.GrantedNamespaces) string {
	switch {
	case n.From == v1beta1.NamespacesFromAll:
		return "all"
	case n.Selector != nil:
		return metav1.FormatLabelSelector(n.Selector.LabelSelector())
	}
	return strings.Join(n.Names, ", ")
}

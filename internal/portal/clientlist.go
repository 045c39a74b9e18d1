package portal

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// clientList is a partial ApiClientList with only the fields that rows need. Decoding the API
// server's response is most of the cost of rendering a page.
type clientList struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []listItem `json:"items"`
}

type listItem struct {
	Metadata struct {
		Namespace     string            `json:"namespace"`
		Name          string            `json:"name"`
		Generation    int64             `json:"generation"`
		Labels        map[string]string `json:"labels"`
		Annotations   map[string]string `json:"annotations"`
		ManagedFields []struct {
			Manager string `json:"manager"`
		} `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		RealmRef    v1alpha1.RealmReference `json:"realmRef"`
		ClientID    string                  `json:"clientId"`
		Description string                  `json:"description"`
	} `json:"spec"`
	Status struct {
		Conditions []itemCondition `json:"conditions"`
	} `json:"status"`
}

// itemCondition is a condition without its transition time.
type itemCondition struct {
	Type               string                 `json:"type"`
	Status             metav1.ConditionStatus `json:"status"`
	Reason             string                 `json:"reason"`
	Message            string                 `json:"message"`
	ObservedGeneration int64                  `json:"observedGeneration"`
}

// apiClient returns an ApiClient with the decoded fields.
func (l *listItem) apiClient() *v1alpha1.ApiClient {
	c := &v1alpha1.ApiClient{}
	c.Namespace, c.Name, c.Generation = l.Metadata.Namespace, l.Metadata.Name, l.Metadata.Generation
	c.Labels, c.Annotations = l.Metadata.Labels, l.Metadata.Annotations
	for _, m := range l.Metadata.ManagedFields {
		c.ManagedFields = append(c.ManagedFields, metav1.ManagedFieldsEntry{Manager: m.Manager})
	}
	c.Spec.RealmRef, c.Spec.ClientID, c.Spec.Description = l.Spec.RealmRef, l.Spec.ClientID, l.Spec.Description
	for _, s := range l.Status.Conditions {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: s.Type, Status: s.Status, Reason: s.Reason, Message: s.Message, ObservedGeneration: s.ObservedGeneration,
		})
	}
	return c
}

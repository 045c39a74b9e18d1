package portal

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// listItem is an ApiClient with only the fields that lists and the overview need. Decoding the API
// server's response is most of the cost of rendering a page.
type listItem struct {
	Metadata struct {
		Namespace         string            `json:"namespace"`
		Name              string            `json:"name"`
		Generation        int64             `json:"generation"`
		CreationTimestamp metav1.Time       `json:"creationTimestamp"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		ManagedFields     []struct {
			Manager string `json:"manager"`
		} `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		RealmRef       v1beta1.RealmReference `json:"realmRef"`
		ClientID       string                 `json:"clientID"`
		Description    string                 `json:"description"`
		ExpirationTime *metav1.Time           `json:"expirationTime"`
	} `json:"spec"`
	Status struct {
		Conditions       []itemCondition            `json:"conditions"`
		Credentials      []v1beta1.CredentialStatus `json:"credentials"`
		LastUsedTime     *metav1.Time               `json:"lastUsedTime"`
		NextRotationTime *metav1.Time               `json:"nextRotationTime"`
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
func (l *listItem) apiClient() *v1beta1.ApiClient {
	c := &v1beta1.ApiClient{}
	c.Namespace, c.Name, c.Generation = l.Metadata.Namespace, l.Metadata.Name, l.Metadata.Generation
	c.CreationTimestamp, c.Labels, c.Annotations = l.Metadata.CreationTimestamp, l.Metadata.Labels, l.Metadata.Annotations
	for _, m := range l.Metadata.ManagedFields {
		c.ManagedFields = append(c.ManagedFields, metav1.ManagedFieldsEntry{Manager: m.Manager})
	}
	c.Spec.RealmRef, c.Spec.ClientID, c.Spec.Description = l.Spec.RealmRef, l.Spec.ClientID, l.Spec.Description
	c.Spec.ExpirationTime = l.Spec.ExpirationTime
	for _, s := range l.Status.Conditions {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: s.Type, Status: s.Status, Reason: s.Reason, Message: s.Message, ObservedGeneration: s.ObservedGeneration,
		})
	}
	c.Status.Credentials, c.Status.LastUsedTime, c.Status.NextRotationTime = l.Status.Credentials, l.Status.LastUsedTime, l.Status.NextRotationTime
	return c
}

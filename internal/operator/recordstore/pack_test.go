package recordstore_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// A record is cached without the metadata that the operator doesn't need. Client libraries transform objects
// more than once.
func TestPack(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "client-1", Labels: map[string]string{v1beta1.ManagedByLabel: v1beta1.ManagedBy},
			Annotations:   map[string]string{v1beta1.OwnerAnnotation: "team/a", "note": "removed"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "other", FieldsV1: metav1.NewFieldsV1("{}")}},
		},
		Data: map[string][]byte{record.DataKey: []byte("{}")},
	}
	for range 2 {
		testkit.Value(recordstore.Pack(secret))(t)
		got := recordstore.Unpack(secret)
		if owner := record.OwnerName(got); owner.Namespace != "team" || owner.Name != "a" || string(got.Data[record.DataKey]) != "{}" ||
			!apply.Stripped(got) || got.GenerateName != "" || len(got.Labels)+len(got.ManagedFields) > 0 || len(got.Annotations) != 3 {
			t.Errorf("%+v is cached", got)
		}
	}
}

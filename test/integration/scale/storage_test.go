//go:build scale

package scale_test

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// sample is the number of objects of each kind whose sizes are averaged.
const sample = 100

// measureStorage adds the size of an ApiClient, its record, and its credentials Secret in etcd.
// The API server stores custom resources as JSON and Secrets in protobuf. Keys, older revisions,
// and the pages of etcd come on top.
func measureStorage(t *testing.T, inst *install.Installation) {
	t.Helper()
	clients := &unstructured.UnstructuredList{}
	clients.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("ApiClientList"))
	records, credentials := &corev1.SecretList{}, &corev1.SecretList{}
	list(t, inst, clients)
	list(t, inst, records, client.InNamespace(inst.RecordsNamespace), client.MatchingLabels{v1beta1.RecordLabel: v1beta1.RecordClient})
	list(t, inst, credentials, client.MatchingLabels{v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated})

	clientSize := 0
	for _, c := range clients.Items {
		content, err := json.Marshal(c.Object)
		if err != nil {
			t.Fatal(err)
		}
		clientSize += len(content)
	}
	sizes := []int{clientSize / len(clients.Items), averageSize(records), averageSize(credentials)}
	addRow(t, true, "an ApiClient, its record, and its Secret, stored size",
		fmt.Sprintf("%d + %d + %d bytes", sizes[0], sizes[1], sizes[2]), "no target")
}

func list(t *testing.T, inst *install.Installation, into client.ObjectList, options ...client.ListOption) {
	t.Helper()
	if err := inst.Env.Client.List(t.Context(), into, append(options, client.Limit(sample))...); err != nil {
		t.Fatal(err)
	}
}

func averageSize(secrets *corev1.SecretList) int {
	sum := 0
	for _, s := range secrets.Items {
		sum += s.Size()
	}
	return sum / len(secrets.Items)
}

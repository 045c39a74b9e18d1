package localissuer

import (
	"io"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Report prints what the issuer reports about a client and a realm with the directory of credentials.
func Report(out io.Writer, dir string, c *v1beta1.ApiClient, realm *v1beta1.Realm) {
	newReporter(out, dir).report([]*v1beta1.Realm{realm}, []*v1beta1.ApiClient{c}, map[key]bool{
		{"Realm", client.ObjectKeyFromObject(realm)}: true, {"ApiClient", client.ObjectKeyFromObject(c)}: true,
	})
}

// Conditions returns all conditions with the given status and text.
func Conditions(status metav1.ConditionStatus, text string) []metav1.Condition {
	var conditions []metav1.Condition
	for _, kind := range []v1beta1.ConditionType{v1beta1.ConditionAccepted, v1beta1.ConditionProgrammed, v1beta1.ConditionReady} {
		conditions = append(conditions, metav1.Condition{Type: string(kind), Status: status, Reason: text, Message: text})
	}
	return conditions
}

// Read returns the kind, name, and file of each object.
func Read(f Files) ([]string, error) {
	documents, err := f.read()
	var all []string
	for _, d := range documents {
		all = append(all, d.object.GetKind()+" "+d.object.GetName()+" "+filepath.Base(d.file))
	}
	return all, err
}

package scenario

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// says checks that a condition's message holds these words.
func ExpectMessage(t *testing.T, obj client.Object, kind v1alpha1.ConditionType, words ...string) {
	t.Helper()
	message := ConditionMessage(t, obj, kind)
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("%s says %q, without %q", kind, message, word)
		}
	}
}

func ConditionMessage(t *testing.T, obj client.Object, kind v1alpha1.ConditionType) string {
	t.Helper()
	c := meta.FindStatusCondition(install.Conditions(obj), string(kind))
	if c == nil {
		t.Fatalf("there is no condition %s", kind)
	}
	return c.Message
}

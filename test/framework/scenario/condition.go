package scenario

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// ExpectMessage checks that the message of a condition contains all the given words.
func ExpectMessage(t *testing.T, obj client.Object, kind v1beta1.ConditionType, words ...string) {
	t.Helper()
	message := ConditionMessage(t, obj, kind)
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("%s has the message %q, want it to contain %q", kind, message, word)
		}
	}
}

// ConditionMessage returns the message of a condition of a Realm or ApiClient.
func ConditionMessage(t *testing.T, obj client.Object, kind v1beta1.ConditionType) string {
	t.Helper()
	c := meta.FindStatusCondition(install.Conditions(obj), string(kind))
	if c == nil {
		t.Fatalf("the condition %s is missing", kind)
	}
	return c.Message
}

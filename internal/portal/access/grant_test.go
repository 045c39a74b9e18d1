package access_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

func TestShortName(t *testing.T) {
	for name, want := range map[string]string{
		"system:serviceaccount:realmkeeper-system:initial-admin": "initial-admin",
		"oidc:grace":                       "oidc:grace",
		"system:serviceaccount:":           "system:serviceaccount:",
		"system:serviceaccount:namespace:": "system:serviceaccount:namespace:",
	} {
		if got := (access.User{Name: name}).ShortName(); got != want {
			t.Errorf("Short name of %s is %q, want %q", name, got, want)
		}
	}
}

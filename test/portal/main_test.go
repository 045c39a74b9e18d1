package portal_test

import (
	"fmt"
	"os"
	"testing"

	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testissuer "github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// issuer is where people sign in; the API server trusts it.
var issuer *testissuer.Issuer

func TestMain(m *testing.M) {
	var authentication []byte
	var err error
	if issuer, err = testissuer.Start(); err == nil {
		authentication, err = issuer.AuthenticationConfiguration()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testenv.Main(m, testenv.WithAuditLog(), testenv.WithAuthentication(authentication))
}

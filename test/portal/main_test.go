package portal_test

import (
	"fmt"
	"os"
	"testing"

	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testissuer "github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// issuer is an OpenID Connect issuer that the API server trusts.
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

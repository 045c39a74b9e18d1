package portal_test

import (
	"fmt"
	"os"
	"testing"

	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	issuer "github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// idp is an OpenID Connect issuer that the API server trusts.
var idp *issuer.Issuer

func TestMain(m *testing.M) {
	var authentication []byte
	var err error
	if idp, err = issuer.Start(); err == nil {
		authentication, err = idp.AuthenticationConfiguration()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	env.Main(m, env.WithAuditLog(), env.WithAuthentication(authentication))
}

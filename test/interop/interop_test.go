package interop_test

import "testing"

// All meet one installation, whose realm changes its signing key for some of them.
func TestPeers(t *testing.T) {
	p := newPlace(t)
	p.configureKubernetes(t) // which takes a while, and is asked last
	for _, peer := range []struct {
		name string
		test func(*testing.T, *place)
	}{
		{"x/oauth2 and go-oidc, every algorithm", testEveryAlgorithm},
		{"x/oauth2 and go-oidc, as the key rotates", testGoAcrossRotation},
		{"x/oauth2 with an assertion", testGoAssertion},
		{"the example of an API in Go, as the key rotates", testExampleAcrossRotation},
		{"openid-client", testOpenIDClient},
		{"oauth4webapi", testOAuth4WebAPI},
		{"jose, as the key rotates", testJoseAcrossRotation},
		{"curl, as documented", testDocumentedCurl},
		{"who forges tokens", testForgedTokens},
		{"who takes a token for an assertion", testTokenAsAssertion},
		{"nginx", testNginx},
		{"a function for Kong", testKongFunction},
		{"kube-apiserver, as the key rotates", testKubernetesAcrossRotation},
	} {
		t.Run(peer.name, func(t *testing.T) { peer.test(t, p) })
	}
}

package interop_test

import "testing"

// TestThirdParties runs all third-party programs against one installation.
func TestThirdParties(t *testing.T) {
	i := newInstallation(t)
	i.configureKubernetes(t) // The API server reloads its configuration while the other subtests run.
	agents := i.startTokenAgents(t)
	for _, party := range []struct {
		name string
		test func(*testing.T, *installation)
	}{
		{"x/oauth2 and go-oidc with every algorithm", testEveryAlgorithm},
		{"go-oidc across a change of the algorithm", testAlgorithmChange},
		{"x/oauth2 with a client assertion", testGoAssertion},
		{"openid-client", testOpenIDClient},
		{"oauth4webapi", testOAuth4WebAPI},
		{"token URLs with a query", testTokenURLWithQuery},
		{"documented curl commands", testDocumentedCurl},
		{"code on the page for application developers", testApplications},
		{"go-spiffe", testSPIFFE},
		{"scripts of the guides for CI systems", testCIScripts},
		{"nginx", testNginx},
		{"DPoP through nginx", testDPoP},
		{"request targets through nginx", testRequestTargets},
		{"delegation", testDelegation},
		{"status lists", testStatusLists},
		{"Model Context Protocol SDKs", testModelContextProtocol},
		{"Kong function", testKongFunction},
		{"Java's HttpClient with 100 requests on a connection", testJavaHTTP2},
		{"verifiers across a key rotation", testAcrossRotation},
		{"readers of a token file", agents.test},
	} {
		t.Run(party.name, func(t *testing.T) { party.test(t, i) })
	}
}

// testAcrossRotation checks that verifiers that were started before a rotation of the signing key accept
// tokens that were issued before and after it.
func testAcrossRotation(t *testing.T, i *installation) {
	before, accepts := i.token(t), map[string]func(*testing.T, string){}
	for name, start := range map[string]func(*testing.T, *installation) func(*testing.T, string){
		"go-oidc": goOIDC, "api/verify": verifyLibrary, "jose": joseProgram, "aws-jwt-verify": awsJWTVerify, "kube-apiserver": kubeAPIServer,
	} {
		accepts[name] = start(t, i)
		accepts[name](t, before)
	}
	i.rotate(t)
	after := i.token(t)
	for name, accept := range accepts {
		t.Run(name, func(t *testing.T) {
			accept(t, before)
			accept(t, after)
		})
	}
}

package interop_test

import "testing"

// TestThirdParties runs all third-party programs against one installation. Some subtests rotate the
// realm's signing key.
func TestThirdParties(t *testing.T) {
	i := newInstallation(t)
	i.configureKubernetes(t) // The API server reloads its configuration while the other subtests run.
	for _, party := range []struct {
		name string
		test func(*testing.T, *installation)
	}{
		{"x/oauth2 and go-oidc with every algorithm", testEveryAlgorithm},
		{"x/oauth2 and go-oidc across a key rotation", testGoAcrossRotation},
		{"x/oauth2 with a client assertion", testGoAssertion},
		{"example API across a key rotation", testExampleAcrossRotation},
		{"openid-client", testOpenIDClient},
		{"oauth4webapi", testOAuth4WebAPI},
		{"jose across a key rotation", testJoseAcrossRotation},
		{"documented curl commands", testDocumentedCurl},
		{"curl with secrets as they are", testCurlUser},
		{"go-spiffe", testSPIFFE},
		{"scripts of the guides for CI systems", testCIScripts},
		{"nginx", testNginx},
		{"DPoP through nginx", testDPoP},
		{"request targets through nginx", testRequestTargets},
		{"Model Context Protocol SDKs", testModelContextProtocol},
		{"Kong function", testKongFunction},
		{"kube-apiserver across a key rotation", testKubernetesAcrossRotation},
	} {
		t.Run(party.name, func(t *testing.T) { party.test(t, i) })
	}
}

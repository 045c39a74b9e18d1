package portal_test

import "testing"

// What people do in the portal, in one installation and one browser. Each test has a namespace and a
// tab of its own.
func TestPortal(t *testing.T) {
	i := startInstance(t)
	b := startBrowser(t, i.portal.URL)
	for name, test := range map[string]func(*testing.T, *instance, *browser){
		"the life of a client":                   lifeOfAClient,
		"a viewer changes nothing":               viewerChangesNothing,
		"a role in a namespace is for it alone":  roleInANamespace,
		"sign-in at an issuer":                   signInAtAnIssuer,
		"requests from elsewhere are refused":    requestsFromElsewhere,
		"hostile names are harmless":             hostileNames,
		"of two people the second is told":       concurrentEdits,
		"what other tools manage is left":        managedClients,
		"clients with other kinds of secrets":    otherSecrets,
		"lists go on from page to page":          pagedLists,
		"every page is accessible and has looks": everyPage,
	} {
		t.Run(name, func(t *testing.T) { test(t, i, b.tab(t)) })
	}
}

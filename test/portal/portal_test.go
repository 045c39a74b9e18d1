package portal_test

import "testing"

// TestPortal tests the portal with a shared installation and browser. Each subtest uses its own
// namespace and tab.
func TestPortal(t *testing.T) {
	i := startInstance(t)
	b := startBrowser(t, i.portal.URL)
	for name, test := range map[string]func(*testing.T, *instance, *browser){
		"client lifecycle":                           clientLifecycle,
		"form offers what is granted":                grantedClient,
		"viewer can't change clients":                viewerPermissions,
		"role is limited to its namespace":           namespacedRole,
		"sign-in with OpenID Connect":                oidcSignIn,
		"cross-site requests are rejected":           crossSiteRequests,
		"user input is escaped":                      maliciousInput,
		"concurrent edits are detected":              concurrentEdits,
		"fields set by other tools can't be changed": managedClients,
		"other secret sources":                       otherSecretSources,
		"overview and lists":                         overviewAndLists,
		"works with the keyboard only":               keyboardOnly,
		"exchanges of a realm and its clients":       exchanges,
		"conditions have remedies":                   conditionRemedies,
		"every page is accessible":                   everyPage,
		"other sites read only public documents":     otherSites,
	} {
		t.Run(name, func(t *testing.T) { test(t, i, b.tab(t)) })
	}
}

package oauth_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

func TestResourceAmong(t *testing.T) {
	const mcp, tenant, dev, plain = "https://mcp.acme.example", "https://api.acme.example/Tenant?x=1", "http://localhost:8080/mcp", "urn:example:log"
	audiences := []string{"billing", mcp, "https://MCP.acme.example/", tenant, dev, plain, "http://[::1]", "https://user@acme.example"}
	for resource, want := range map[string]string{
		mcp:                                       mcp,
		"https://MCP.acme.example/":               "https://MCP.acme.example/", // the same string takes precedence
		"https://mcp.acme.example/":               mcp,
		"HTTPS://Mcp.Acme.Example":                mcp,
		"https://mcp.acme.example:443":            mcp,
		"https://mcp.acme.example:443/":           mcp,
		"https://mcp.acme.example:":               mcp,
		"https://API.acme.example:443/Tenant?x=1": tenant,
		"HTTP://LOCALHOST:8080/mcp":               dev,
		"http://[::1]:80/":                        "http://[::1]",

		// Everything else is different.
		"https://mcp.acme.example/a":               "",
		"https://mcp.acme.example//":               "",
		"https://mcp.acme.example/?":               "",
		"https://mcp.acme.example?":                "",
		"https://mcp.acme.example#":                "",
		"https://mcp.acme.example/#top":            "",
		"https://mcp.acme.example:8443":            "",
		"https://mcp.acme.example:80":              "",
		"https://mcp.acme.example::443":            "",
		"https://mcp.acme.example:0443":            "",
		"http://mcp.acme.example":                  "",
		"http://mcp.acme.example:443":              "",
		"https://user@mcp.acme.example":            "",
		"https://@mcp.acme.example":                "",
		"https://USER@acme.example":                "",
		"https://mcp.acme.example.":                "",
		"https://mcp.acme.example@evil.example/":   "",
		"https://\u212acp.acme.example":            "",
		"https://api.acme.example/tenant?x=1":      "",
		"https://api.acme.example/%54enant?x=1":    "",
		"https://api.acme.example/a/../Tenant?x=1": "",
		"http://localhost:8080/mcp/":               "",
		"URN:example:log":                          "",
		"Billing":                                  "",
		"https://":                                 "",
		"https:///":                                "",
		"":                                         "",
	} {
		if want == "" {
			want = resource
		}
		testkit.Diff(t, "audience for "+resource, want, oauth.ResourceAmong(audiences, resource))
	}
}

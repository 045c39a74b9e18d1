package beside_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// program is a program or a library that verifies tokens. Its section has its configuration and what its callers
// see.
type program struct {
	page, section string
	api           *api
	start         func(*testing.T, setup) instance
}

// programs are all that TestPrograms runs.
var programs = []program{
	{"haproxy.md", "HAProxy", orders, haproxy},
	{"apache.md", "mod_auth_openidc, offline", orders, authOpenIDC},
	{"apache.md", "mod_auth_openidc, introspection", orders, authOpenIDC},
	{"apache.md", "mod_oauth2", orders, modOAuth2},
	{"caddy.md", "Caddy", orders, caddy},
	{"oauth2-proxy.md", "oauth2-proxy", orders, oauth2Proxy},
	{"traefik.md", "Traefik", orders, traefik},
	{"opentelemetry.md", "oidcauthextension", orders, oidcCollector},
	{"rabbitmq.md", "RabbitMQ", rabbit, rabbitMQ},
	{"dovecot.md", "Dovecot", orders, dovecot},
	{"libraries.md", "Python: PyJWT", orders, pyJWT},
	{"libraries.md", "Ruby: jwt", orders, rubyJWT},
	{"libraries.md", "Perl: Crypt::JWT", orders, perlJWT},
	{"libraries.md", "Erlang: jose", orders, erlangJOSE},
	{"libraries.md", "C: cjose", orders, cJOSE},
	{"libraries.md", "Shell: jose", orders, shellJOSE},
	{"node.md", "Express: express-oauth2-jwt-bearer", orders, express},
	{"node.md", "Fastify: @fastify/jwt", orders, fastify},
	{"node.md", "Hono: hono/jwk", orders, hono},
	{"node.md", "Node.js: aws-jwt-verify", orders, nodeVerifier},
	{"node.md", "Node.js: jsonwebtoken", orders, nodeVerifier},
	{"openfga.md", "OpenFGA", stores, openFGA},
}

// The sections about programs that have a test of their own.
const (
	fluxPage            = "flux.md"
	fluxHeading         = "Flux"
	oidcProviderPage    = "sign-in.md"
	oidcProviderHeading = "oidc-provider"
	spirePage           = "spire.md"
	spireHeading        = "SPIRE"
	certManagerPage     = "cert-manager.md"
	certManagerHeading  = "cert-manager"
)

// TestPages checks that docs/tested.md, the index of docs/works-with, and its pages name exactly the programs that
// the tests run.
func TestPages(t *testing.T) {
	var want, documented []string
	add := func(page, section string) {
		want = append(want, page+"#"+anchor(section))
		for heading := range sections(readDocument(t, "works-with/"+page)) {
			if link := page + "#" + anchor(heading); !slices.Contains(documented, link) {
				documented = append(documented, link)
			}
		}
	}
	for _, p := range programs {
		add(p.page, p.section)
	}
	for _, c := range clients {
		add(c.page, c.section)
	}
	add(fluxPage, fluxHeading)
	add(oidcProviderPage, oidcProviderHeading)
	add(spirePage, spireHeading)
	add(certManagerPage, certManagerHeading)
	slices.Sort(want)
	slices.Sort(documented)
	if !slices.Equal(documented, want) {
		t.Errorf("the pages have the sections %q, but %q are run", documented, want)
	}
	for document, link := range map[string]*regexp.Regexp{
		"tested.md":            regexp.MustCompile(`(?m)^\| \[[^]]+\]\(works-with/([^)]+)\).* \| \*\*Run\*\*`),
		"works-with/README.md": regexp.MustCompile(`(?m)^\| \[[^]]+\]\(([^)]+)\)`),
	} {
		var got []string
		for _, row := range link.FindAllStringSubmatch(readDocument(t, document), -1) {
			got = append(got, row[1])
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the rows of docs/%s link to %q, but %q are run", document, got, want)
		}
	}
}

// anchor returns the anchor of a heading.
func anchor(heading string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case strings.ContainsRune(",.:()@/", r):
			return -1
		}
		return r
	}, heading)
	return strings.ToLower(kept)
}

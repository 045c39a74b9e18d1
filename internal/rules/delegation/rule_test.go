package delegation_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
)

func TestClients(t *testing.T) {
	const labels, other = "0123", "4567"
	for name, tc := range map[string]struct {
		selector  delegation.Clients
		selectors []string // of the client "agent" in the namespace "apps"
		want      bool
	}{
		"every namespace":                 {selector: delegation.Clients{All: true}, want: true},
		"its namespace":                   {selector: delegation.Clients{Namespaces: []string{"a", "apps"}}, want: true},
		"another namespace":               {selector: delegation.Clients{Namespaces: []string{"a"}}},
		"its labels":                      {selector: delegation.Clients{Labels: labels}, selectors: []string{other, labels}, want: true},
		"other labels":                    {selector: delegation.Clients{Labels: labels}, selectors: []string{other}},
		"no labels":                       {selector: delegation.Clients{Labels: labels}},
		"nothing":                         {selector: delegation.Clients{}, selectors: []string{""}},
		"its client ID":                   {selector: delegation.Clients{All: true, ClientIDs: []string{"agent"}}, want: true},
		"another client ID":               {selector: delegation.Clients{All: true, ClientIDs: []string{"b"}}},
		"its client ID, other namespace":  {selector: delegation.Clients{Namespaces: []string{"a"}, ClientIDs: []string{"agent"}}},
		"its client ID, other labels":     {selector: delegation.Clients{Labels: labels, ClientIDs: []string{"agent"}}, selectors: []string{other}},
		"its labels, but another client":  {selector: delegation.Clients{Labels: labels, ClientIDs: []string{"b"}}, selectors: []string{labels}},
		"its namespace as a digest":       {selector: delegation.Clients{Labels: "apps"}},
		"a digest as the namespace named": {selector: delegation.Clients{Namespaces: []string{labels}}, selectors: []string{labels}},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "selected", tc.want, tc.selector.Select("agent", "apps", tc.selectors))
		})
	}
}

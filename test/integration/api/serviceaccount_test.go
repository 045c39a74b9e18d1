package api_test

import (
	"fmt"
	"strings"
)

const (
	accountNameRule  = "spec.serviceAccounts.name must be the name of a service account: lower-case letters, digits, and inner hyphens and dots"
	accountDefault   = "spec.serviceAccounts.name must not be default, which every pod of the namespace has that names no service account: make one for this workload"
	accountNameField = "spec.serviceAccounts[0].name"
)

// accounts is a list of that many service accounts.
func accounts(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("{name: a%d}", i))
	}
	return "serviceAccounts: [" + strings.Join(names, ", ") + "]"
}

var serviceAccountValidations = map[string]validation{
	"one account":                  {spec: "serviceAccounts: [{name: a-1.b}]"},
	"eight accounts":               {spec: accounts(8)},
	"account with a long name":     {spec: "serviceAccounts: [{name: " + strings.Repeat("a", 253) + "}]"},
	"account almost default":       {spec: "serviceAccounts: [{name: default2}]"},
	"account, a key and a secret":  {spec: "{serviceAccounts: [{name: a}], publicKeys: [" + ecKey("a") + "], secret: {generated: {}}}"},
	"no accounts":                  {spec: "serviceAccounts: []", wantField: "spec.serviceAccounts", wantRule: "should have at least 1 items"},
	"nine accounts":                {spec: accounts(9), wantField: "spec.serviceAccounts", wantRule: "must have at most 8 items"},
	"one account twice":            {spec: "serviceAccounts: [{name: a}, {name: a}]", wantField: "spec.serviceAccounts[1]", wantRule: "Duplicate value"},
	"account without name":         {spec: "serviceAccounts: [{}]", wantField: accountNameField, wantRule: "Required value"},
	"account with an empty name":   {spec: `serviceAccounts: [{name: ""}]`, wantField: accountNameField, wantRule: accountNameRule},
	"account default":              {spec: "serviceAccounts: [{name: default}]", wantField: accountNameField, wantRule: `Invalid value: "default": ` + accountDefault},
	"account from elsewhere":       {spec: "serviceAccounts: [{name: other/a}]", wantField: accountNameField, wantRule: accountNameRule},
	"account in capitals":          {spec: "serviceAccounts: [{name: Billing}]", wantField: accountNameField, wantRule: accountNameRule},
	"account with too long a name": {spec: "serviceAccounts: [{name: " + strings.Repeat("a", 254) + "}]", wantField: accountNameField, wantRule: "may not be more than 253"},
}

// serviceAccountTransitions are changes between a secret and accounts.
var serviceAccountTransitions = map[string]transition{
	"another account":              {before: "serviceAccounts: [{name: a}]", after: "serviceAccounts: [{name: b}]"},
	"generated name to accounts":   {before: "secret: {generated: {secretName: s}}", after: "serviceAccounts: [{name: a}]"},
	"accounts to a generated name": {before: "serviceAccounts: [{name: a}]", after: "{serviceAccounts: [{name: a}], secret: {generated: {secretName: s}}}"},
	"accounts to nothing":          {before: "serviceAccounts: [{name: a}]", after: ""},
}

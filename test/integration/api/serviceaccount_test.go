package api_test

import (
	"fmt"
	"strings"
)

const (
	accountDefault   = "spec.serviceAccounts.name must not be default, which Pods use unless they specify another service account; create a service account for this workload"
	accountNameField = "spec.serviceAccounts[0].name"
)

// accounts returns a list of n service accounts.
func accounts(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("{name: a%d}", i))
	}
	return "serviceAccounts: [" + strings.Join(names, ", ") + "]"
}

var serviceAccountValidations = map[string]validation{
	"one account":                           {spec: "serviceAccounts: [{name: a-1.b}]"},
	"eight accounts":                        {spec: accounts(8)},
	"account with a long name":              {spec: "serviceAccounts: [{name: " + strings.Repeat("a", 253) + "}]"},
	"account with a name like default":      {spec: "serviceAccounts: [{name: default2}]"},
	"account without a secret":              {spec: "{serviceAccounts: [{name: a}], secret: null}"},
	"account with a key and a secret":       {spec: "{serviceAccounts: [{name: a}], publicKeys: [" + ecKey("a") + "], secret: {generated: {}}}"},
	"empty list of accounts":                {spec: "serviceAccounts: []", wantField: "spec.serviceAccounts", wantRule: "should have at least 1 items"},
	"nine accounts":                         {spec: accounts(9), wantField: "spec.serviceAccounts", wantRule: "must have at most 8 items"},
	"duplicate account":                     {spec: "serviceAccounts: [{name: a}, {name: a}]", wantField: "spec.serviceAccounts[1]", wantRule: "Duplicate value"},
	"account without a name":                {spec: "serviceAccounts: [{}]", wantField: accountNameField, wantRule: "Required value"},
	"account with an empty name":            {spec: `serviceAccounts: [{name: ""}]`, wantField: accountNameField, wantRule: tooShort},
	"account default":                       {spec: "serviceAccounts: [{name: default}]", wantField: accountNameField, wantRule: `Invalid value: "default": ` + accountDefault},
	"account name with a slash":             {spec: "serviceAccounts: [{name: other/a}]", wantField: accountNameField, wantRule: dnsSubdomainRule},
	"account name in uppercase":             {spec: "serviceAccounts: [{name: Billing}]", wantField: accountNameField, wantRule: dnsSubdomainRule},
	"account with a name of 254 characters": {spec: "serviceAccounts: [{name: " + strings.Repeat("a", 254) + "}]", wantField: accountNameField, wantRule: "may not be more than 253"},
}

// serviceAccountTransitions covers changes between a secret and service accounts.
var serviceAccountTransitions = map[string]transition{
	"account replaced":                     {before: "serviceAccounts: [{name: a}]", after: "serviceAccounts: [{name: b}]"},
	"generated with a name to accounts":    {before: "secret: {generated: {secretName: s}}", after: "{secret: null, serviceAccounts: [{name: a}]}"},
	"secret with a name added to accounts": {before: "{secret: null, serviceAccounts: [{name: a}]}", after: "{serviceAccounts: [{name: a}], secret: {generated: {secretName: s}}}"},
	"accounts removed, secret left":        {before: "serviceAccounts: [{name: a}]", after: ""},
	"accounts removed, nothing left":       {before: "{secret: null, serviceAccounts: [{name: a}]}", after: "secret: null", wantField: "spec.secret", wantRule: noAuthentication},
}

package oauth_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

func TestNarrowScope(t *testing.T) {
	granted := []string{"orders:read", "orders:write", "stock"}
	tests := map[string]struct {
		requested string
		granted   []string
		want      []string
		wantErr   error
	}{
		"omitted":                 {granted: granted, want: granted},
		"one scope":               {requested: "stock", granted: granted, want: []string{"stock"}},
		"in the order of granted": {requested: "stock orders:read", granted: granted, want: []string{"orders:read", "stock"}},
		"one scope twice":         {requested: "stock" + " stock", granted: granted, want: []string{"stock"}},
		"not granted":             {requested: "stock admin", granted: granted, wantErr: oauth.ErrInvalidScope},
		"prefix of a scope":       {requested: "orders", granted: granted, wantErr: oauth.ErrInvalidScope},
		"two spaces":              {requested: "stock  orders:read", granted: granted, wantErr: oauth.ErrInvalidScope},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := oauth.NarrowScope(tc.requested, tc.granted)
			testkit.Diff(t, "error", tc.wantErr, err, cmpopts.EquateErrors())
			testkit.Diff(t, "scopes", tc.want, got, cmpopts.EquateEmpty())
		})
	}
}

func TestNarrowAudience(t *testing.T) {
	granted := []string{"https://orders.example.com", "https://stock.example.com/v1", "urn:example:log", "billing"}
	tests := map[string]struct {
		audiences, resources []string
		want                 []string
		wantErr              error
	}{
		"omitted":                       {want: granted},
		"audience":                      {audiences: []string{"billing"}, want: []string{"billing"}},
		"resource":                      {resources: []string{"https://orders.example.com"}, want: []string{"https://orders.example.com"}},
		"both, in the order of granted": {audiences: []string{"billing"}, resources: []string{"urn:example:log"}, want: []string{"urn:example:log", "billing"}},
		"same value in both":            {audiences: []string{"urn:example:log"}, resources: []string{"urn:example:log"}, want: []string{"urn:example:log"}},
		"audience not granted":          {audiences: []string{"https://other.example.com"}, wantErr: oauth.ErrInvalidTarget},
		"several audiences":             {audiences: []string{"billing", "urn:example:log"}, want: []string{"urn:example:log", "billing"}},
		"resource not granted":          {resources: []string{"https://other.example.com"}, wantErr: oauth.ErrInvalidTarget},
		"one of two not granted":        {audiences: []string{"billing", "https://other.example.com"}, wantErr: oauth.ErrInvalidTarget},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := oauth.NarrowAudience(tc.audiences, tc.resources, granted)
			testkit.Diff(t, "error", tc.wantErr, err, cmpopts.EquateErrors())
			testkit.Diff(t, "audiences", tc.want, got, cmpopts.EquateEmpty())
		})
	}
}

// A resource that RFC 8707 §2 doesn't allow is rejected, even if it is granted as an audience.
func TestNarrowAudienceRejectsInvalidResources(t *testing.T) {
	for _, resource := range []string{"billing", "/v1", "//example.com", "https://example.com/#top", "https://example.com#", "https://%zz", ":", ""} {
		if _, err := oauth.NarrowAudience(nil, []string{resource}, []string{resource}); !errors.Is(err, oauth.ErrInvalidTarget) {
			t.Errorf("resource %q: %v, want %v", resource, err, oauth.ErrInvalidTarget)
		}
		if resource == "" {
			continue
		}
		if _, err := oauth.NarrowAudience([]string{resource}, nil, []string{resource}); err != nil {
			t.Errorf("audience %q: %v, want no error", resource, err)
		}
	}
}

func TestSingleAudience(t *testing.T) {
	const orders, stock = "https://orders.example.com", "https://stock.example.com"
	for name, tc := range map[string]struct {
		audiences, resources []string
		want                 string
		wantErr              error
	}{
		"none":                     {},
		"audience":                 {audiences: []string{"billing"}, want: "billing"},
		"resource":                 {resources: []string{orders}, want: orders},
		"the same as both":         {audiences: []string{orders, orders}, resources: []string{orders}, want: orders},
		"two audiences":            {audiences: []string{orders, "billing"}, wantErr: oauth.ErrNotOneTarget},
		"two resources":            {resources: []string{orders, stock}, wantErr: oauth.ErrNotOneTarget},
		"different ones":           {audiences: []string{orders}, resources: []string{stock}, wantErr: oauth.ErrNotOneTarget},
		"resource that is no URI":  {resources: []string{"billing"}, wantErr: oauth.ErrInvalidTarget},
		"resource with a fragment": {resources: []string{orders + "#a"}, wantErr: oauth.ErrInvalidTarget},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := oauth.SingleAudience(tc.audiences, tc.resources)
			testkit.Diff(t, "error", tc.wantErr, err, cmpopts.EquateErrors())
			testkit.Diff(t, "audience", tc.want, got)
		})
	}
}

// A description names the first value that was refused, if a description can contain it.
func TestErrorsNameTheRefusedValue(t *testing.T) {
	granted := []string{"orders:read", "https://orders.example.com"}
	longest := strings.Repeat("x", 256)
	for name, tc := range map[string]struct {
		scope               string
		audiences, resource []string
		want                string
	}{
		"scope":                  {scope: "orders:read admin:all stock:all", want: "A scope is malformed, unknown, or not granted to this client. The first one is: admin:all"},
		"empty scope":            {scope: "orders:read  admin", want: "A scope is malformed, unknown, or not granted to this client."},
		"audience":               {audiences: []string{granted[1], "https://b"}, resource: []string{"https://c"}, want: "An audience or resource is malformed or not granted to this client. The first one is: https://b"},
		"resource":               {resource: []string{"orders:read#a"}, want: "An audience or resource is malformed or not granted to this client. The first one is: orders:read#a"},
		"longest value":          {audiences: []string{longest}, want: "An audience or resource is malformed or not granted to this client. The first one is: " + longest},
		"longer value":           {audiences: []string{longest + "x"}, want: "An audience or resource is malformed or not granted to this client."},
		"quotation mark":         {audiences: []string{`a"b`}, want: "An audience or resource is malformed or not granted to this client."},
		"backslash":              {audiences: []string{`a\b`}, want: "An audience or resource is malformed or not granted to this client."},
		"control character":      {audiences: []string{"a\tb"}, want: "An audience or resource is malformed or not granted to this client."},
		"character beyond ASCII": {audiences: []string{"ä"}, want: "An audience or resource is malformed or not granted to this client."},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := oauth.NarrowScope(tc.scope, granted)
			if tc.scope == "" {
				_, err = oauth.NarrowAudience(tc.audiences, tc.resource, granted)
			}
			rejection, ok := errors.AsType[*oauth.Error](err)
			if !ok {
				t.Fatalf("got error %v", err)
			}
			testkit.Diff(t, "description", tc.want, rejection.Description)
		})
	}
}

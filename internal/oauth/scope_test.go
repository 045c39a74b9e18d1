package oauth_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

func TestNarrowScope(t *testing.T) {
	granted := []string{"orders:read", "orders:write", "stock"}
	tests := map[string]struct {
		requested string
		granted   []string
		want      []string
		wantErr   error
	}{
		"left out":                     {granted: granted, want: granted},
		"left out, nothing is granted": {},
		"one":                          {requested: "stock", granted: granted, want: []string{"stock"}},
		"in granted's order":           {requested: "stock orders:read", granted: granted, want: []string{"orders:read", "stock"}},
		"all":                          {requested: "orders:read orders:write stock", granted: granted, want: granted},
		"one twice":                    {requested: "stock" + " stock", granted: granted, want: []string{"stock"}},
		"not granted":                  {requested: "stock admin", granted: granted, wantErr: oauth.ErrInvalidScope},
		"nothing is granted":           {requested: "stock", wantErr: oauth.ErrInvalidScope},
		"another case":                 {requested: "Stock", granted: granted, wantErr: oauth.ErrInvalidScope},
		"a part of one":                {requested: "orders", granted: granted, wantErr: oauth.ErrInvalidScope},
		"two spaces":                   {requested: "stock  orders:read", granted: granted, wantErr: oauth.ErrInvalidScope},
		"a space before":               {requested: " stock", granted: granted, wantErr: oauth.ErrInvalidScope},
		"a space after":                {requested: "stock ", granted: granted, wantErr: oauth.ErrInvalidScope},
		"a space alone":                {requested: " ", granted: granted, wantErr: oauth.ErrInvalidScope},
		"a tab":                        {requested: "stock\torders:read", granted: granted, wantErr: oauth.ErrInvalidScope},
		"a comma":                      {requested: "stock,orders:read", granted: granted, wantErr: oauth.ErrInvalidScope},
		"a quote":                      {requested: `"stock"`, granted: granted, wantErr: oauth.ErrInvalidScope},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := oauth.NarrowScope(tc.requested, tc.granted)
			if !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("scopes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNarrowAudience(t *testing.T) {
	granted := []string{"https://orders.example.com", "https://stock.example.com/v1", "urn:example:log", "billing"}
	tests := map[string]struct {
		audience  string
		resources []string
		want      []string
		wantErr   error
	}{
		"left out":                       {want: granted},
		"an audience":                    {audience: "billing", want: []string{"billing"}},
		"a resource":                     {resources: []string{"https://orders.example.com"}, want: []string{"https://orders.example.com"}},
		"a URN":                          {resources: []string{"urn:example:log"}, want: []string{"urn:example:log"}},
		"both, in granted's order":       {audience: "billing", resources: []string{"urn:example:log"}, want: []string{"urn:example:log", "billing"}},
		"the same in both":               {audience: "urn:example:log", resources: []string{"urn:example:log"}, want: []string{"urn:example:log"}},
		"one resource twice":             {resources: []string{"urn:example:log", "urn:example:log"}, want: []string{"urn:example:log"}},
		"audience not granted":           {audience: "https://other.example.com", wantErr: oauth.ErrInvalidTarget},
		"two audiences in one parameter": {audience: "billing urn:example:log", wantErr: oauth.ErrInvalidTarget},
		"resource not granted":           {resources: []string{"https://other.example.com"}, wantErr: oauth.ErrInvalidTarget},
		"one of two not granted":         {resources: []string{"urn:example:log", "https://other.example.com"}, wantErr: oauth.ErrInvalidTarget},
		"one granted beside an audience": {audience: "other", resources: []string{"urn:example:log"}, wantErr: oauth.ErrInvalidTarget},
		"a slash more":                   {resources: []string{"https://orders.example.com/"}, wantErr: oauth.ErrInvalidTarget},
		"a resource that is no URI":      {resources: []string{"billing"}, wantErr: oauth.ErrInvalidTarget},
		"a relative resource":            {resources: []string{"/v1"}, wantErr: oauth.ErrInvalidTarget},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := oauth.NarrowAudience(tc.audience, tc.resources, granted)
			if !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("audiences (-want +got):\n%s", diff)
			}
		})
	}
}

// A resource that RFC 8707 §2 doesn't allow is refused, even where it is granted as an audience.
func TestNarrowAudienceRefusesResourcesOfBadForm(t *testing.T) {
	for _, resource := range []string{"billing", "/v1", "//example.com", "https://example.com/#top", "https://example.com#", "https://%zz", ":", ""} {
		if _, err := oauth.NarrowAudience("", []string{resource}, []string{resource}); !errors.Is(err, oauth.ErrInvalidTarget) {
			t.Errorf("resource %q: %v, want %v", resource, err, oauth.ErrInvalidTarget)
		}
		if resource == "" {
			continue
		}
		if _, err := oauth.NarrowAudience(resource, nil, []string{resource}); err != nil {
			t.Errorf("audience %q: %v, want none", resource, err)
		}
	}
}

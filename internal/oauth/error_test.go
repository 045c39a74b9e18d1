package oauth_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		err        *oauth.Error
		wantStatus int
		wantCode   string
	}{
		"ErrInvalidClient":      {oauth.ErrInvalidClient, http.StatusUnauthorized, "invalid_client"},
		"ErrMethod":             {oauth.ErrMethod, http.StatusMethodNotAllowed, "invalid_request"},
		"ErrUnknownRealm":       {oauth.ErrUnknownRealm, http.StatusNotFound, "invalid_request"},
		"ErrNotFound":           {oauth.ErrNotFound, http.StatusNotFound, "invalid_request"},
		"ErrBodyTooLarge":       {oauth.ErrBodyTooLarge, http.StatusRequestEntityTooLarge, "invalid_request"},
		"ErrHeaders":            {oauth.ErrHeaders, http.StatusRequestHeaderFieldsTooLarge, "invalid_request"},
		"ErrContentType":        {oauth.ErrContentType, http.StatusBadRequest, "invalid_request"},
		"ErrUnreadableBody":     {oauth.ErrUnreadableBody, http.StatusBadRequest, "invalid_request"},
		"ErrMalformed":          {oauth.ErrMalformed, http.StatusBadRequest, "invalid_request"},
		"ErrTooMany":            {oauth.ErrTooMany, http.StatusBadRequest, "invalid_request"},
		"ErrRepeated":           {oauth.ErrRepeated, http.StatusBadRequest, "invalid_request"},
		"ErrCredentialsQuery":   {oauth.ErrCredentialsQuery, http.StatusBadRequest, "invalid_request"},
		"ErrTwoMethods":         {oauth.ErrTwoMethods, http.StatusBadRequest, "invalid_request"},
		"ErrAssertionType":      {oauth.ErrAssertionType, http.StatusBadRequest, "invalid_request"},
		"ErrNoClientID":         {oauth.ErrNoClientID, http.StatusBadRequest, "invalid_request"},
		"ErrClientIDMismatch":   {oauth.ErrClientIDMismatch, http.StatusBadRequest, "invalid_request"},
		"ErrUnknownRequirement": {oauth.ErrUnknownRequirement, http.StatusBadRequest, "invalid_request"},
		"ErrEmptyRequirement":   {oauth.ErrEmptyRequirement, http.StatusBadRequest, "invalid_request"},
		"ErrRequirementsPath":   {oauth.ErrRequirementsPath, http.StatusBadRequest, "invalid_request"},
		"ErrNoGrantType":        {oauth.ErrNoGrantType, http.StatusBadRequest, "invalid_request"},
		"ErrGrantType":          {oauth.ErrGrantType, http.StatusBadRequest, "unsupported_grant_type"},
		"ErrInvalidScope":       {oauth.ErrInvalidScope, http.StatusBadRequest, "invalid_scope"},
		"ErrInvalidTarget":      {oauth.ErrInvalidTarget, http.StatusBadRequest, "invalid_target"},
		"ErrNotLoaded":          {oauth.ErrNotLoaded, http.StatusServiceUnavailable, "temporarily_unavailable"},
		"ErrAssertionsFull":     {oauth.ErrAssertionsFull, http.StatusServiceUnavailable, "temporarily_unavailable"},
		"ErrNoClusterKeys":      {oauth.ErrNoClusterKeys, http.StatusServiceUnavailable, "temporarily_unavailable"},
		"ErrNoAssertion":        {oauth.ErrNoAssertion, http.StatusBadRequest, "invalid_request"},
		"ErrInvalidGrant":       {oauth.ErrInvalidGrant, http.StatusBadRequest, "invalid_grant"},
		"ErrDPoPRequired":       {oauth.ErrDPoPRequired, http.StatusBadRequest, "invalid_dpop_proof"},
		"ErrInvalidProof":       {oauth.ErrInvalidProof, http.StatusBadRequest, "invalid_dpop_proof"},
		"ErrProofAtVerify":      {oauth.ErrProofAtVerify, http.StatusUnauthorized, "invalid_dpop_proof"},
		"ErrProofsFull":         {oauth.ErrProofsFull, http.StatusServiceUnavailable, "temporarily_unavailable"},
		"ErrClaimNames":         {oauth.ErrClaimNames, http.StatusBadRequest, "invalid_request"},
		"ErrDPoPHeaders":        {oauth.ErrDPoPHeaders, http.StatusBadRequest, "invalid_request"},
		"ErrServer":             {oauth.ErrServer, http.StatusInternalServerError, "server_error"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.err.Status != tc.wantStatus || tc.err.Code != tc.wantCode {
				t.Errorf("%d %s, want %d %s", tc.err.Status, tc.err.Code, tc.wantStatus, tc.wantCode)
			}
			var body map[string]string
			if err := json.Unmarshal(tc.err.Body(), &body); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"error": tc.err.Code, "error_description": tc.err.Description}
			if diff := cmp.Diff(want, body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			for name, value := range body {
				if value == "" || strings.ContainsFunc(value, forbidden) {
					t.Errorf("%s %q contains characters that RFC 6749 §5.2 does not allow", name, value)
				}
			}
		})
	}
}

// forbidden reports whether r is outside the character set of RFC 6749 §5.2:
// %x20-21 / %x23-5B / %x5D-7E.
func forbidden(r rune) bool {
	return r < 0x20 || r == '"' || r == '\\' || r > 0x7e
}

// Package audit writes one line of JSON for each decision about a credential: the client, the
// outcome and the reason. A line never contains a secret or a token.
package audit

import (
	"net/netip"
	"time"
)

// Event is a decision about a credential or a change to one. Empty fields are omitted from the
// line. docs/audit.schema.json is the schema of the line.
type Event struct {
	Time    time.Time `json:"time"`
	Action  Action    `json:"action"`
	Outcome Outcome   `json:"outcome"`
	// Reason is the reason for an outcome other than Granted.
	Reason Reason `json:"reason,omitempty"`
	// Realm is the realm's name.
	Realm string `json:"realm,omitempty"`
	// ClientID is the client ID. It is empty if the client does not exist, because the value in the
	// request may be a misplaced secret.
	ClientID string `json:"clientId,omitempty"`
	// ClientUID is the UID of the ApiClient. It is empty if the client does not exist.
	ClientUID string `json:"clientUid,omitempty"`
	// SecretID is the ID of the secret that was verified or changed, as in status.credentials of the
	// ApiClient. For a JWT it is the "kid" of the key that verified it, or the name of the service
	// account.
	SecretID string `json:"secretId,omitempty"`
	// Issuer is the name of the issuer in the realm, or "kubernetes", if a token of this issuer was
	// presented and its signature is valid. Subject is the token's "sub".
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Source is the source address of the request.
	Source netip.Addr `json:"source,omitzero"`
	// Actor is the user or service account that made the change or signed in. It is empty for a
	// client's own request, and for a sign-in that was not accepted.
	Actor string `json:"actor,omitempty"`
	// OnBehalfOf is the "sub" of a token with which the client acts, or wanted to act, for another subject.
	// Actors are the earlier actors, latest first: client IDs, or the issuer and the subject of an actor that
	// another issuer states, separated by a space. Rule is the name of the rule that allows it.
	OnBehalfOf string   `json:"onBehalfOf,omitempty"`
	Actors     []string `json:"actors,omitempty"`
	Rule       string   `json:"rule,omitempty"`
	// TokenID is the "jti" of the issued token, or of the token that the client may not introspect.
	TokenID string `json:"jti,omitempty"`
	// Reused means that the issued token is one that the client got before, in an earlier event.
	Reused bool `json:"reused,omitempty"`
	// Lost is the number of events lost before this one. Only events of ActionAudit have it.
	Lost uint64 `json:"lost,omitempty"`
	// Suppressed is the number of events with this outcome and reason that were not written, because
	// their sources caused too many. Only events of ActionAudit have it.
	Suppressed uint64 `json:"suppressed,omitempty"`
}

// Action is the requested action.
type Action string

const (
	// ActionToken is a request for an access token.
	ActionToken Action = "token"
	// ActionIntrospection is an introspection request. The outcome says whether the client could
	// learn about the token, not whether the token is valid.
	ActionIntrospection Action = "introspection"
	// ActionAudit is an event about the audit log itself.
	ActionAudit Action = "audit"

	// ActionSignIn is a sign-in of a user in the portal.
	ActionSignIn Action = "sign_in"
	// ActionSignOut is a sign-out of a user in the portal.
	ActionSignOut Action = "sign_out"

	// The following are actions of a user on a client.

	// ActionCreate creates a client with a secret.
	ActionCreate Action = "create"
	// ActionSuspend suspends a client.
	ActionSuspend Action = "suspend"
	// ActionResume resumes a suspended client.
	ActionResume Action = "resume"
	// ActionRotate replaces the secret of a client.
	ActionRotate Action = "rotate"
	// ActionRevokeSecret revokes one secret of a client.
	ActionRevokeSecret Action = "revoke_secret"
	// ActionSetExpiration sets or removes the expiration of a client.
	ActionSetExpiration Action = "set_expiration"
	// ActionDelete deletes a client.
	ActionDelete Action = "delete"
)

// Outcome is the result of an action.
type Outcome string

const (
	// Granted means that the action was performed.
	Granted Outcome = "granted"
	// Refused means that the action was denied.
	Refused Outcome = "refused"
	// Failed means that the action failed because of an error.
	Failed Outcome = "failed"
)

// Reason is the reason for an outcome other than Granted. The response to the client may reveal
// less.
type Reason string

const (
	// ReasonNoCredentials means that the request had no credentials, or malformed ones.
	ReasonNoCredentials Reason = "no_credentials"
	// ReasonUnknownClient means that the realm has no client with that ID.
	ReasonUnknownClient Reason = "unknown_client"
	// ReasonWrongSecret means that the secret does not match any of the client's secrets, or that
	// it has expired.
	ReasonWrongSecret Reason = "wrong_secret"
	// ReasonWrongAssertion means that the assertion is invalid or does not belong to the client.
	// The token server logs the reason at debug level.
	ReasonWrongAssertion Reason = "wrong_assertion"
	// ReasonUnknownKey means that a trusted issuer has no known key with the token's "kid". The token
	// server has asked for the issuer's keys.
	ReasonUnknownKey Reason = "unknown_key"
	// ReasonWrongSubject means that the token of token exchange, or the ID-JAG, is invalid.
	ReasonWrongSubject Reason = "wrong_subject_token"
	// ReasonExchangeNotAllowed means that no rule of the realm lets the client act for the subject of the token.
	ReasonExchangeNotAllowed Reason = "exchange_not_allowed"
	// ReasonRealmDisabled means that the realm is suspended or not Accepted.
	ReasonRealmDisabled Reason = "realm_disabled"
	// ReasonClientDisabled means that the client is suspended or not Accepted.
	ReasonClientDisabled Reason = "client_disabled"
	// ReasonClientExpired means that spec.expirationTime of the client has passed.
	ReasonClientExpired Reason = "client_expired"
	// ReasonTooManyFailures means that too many earlier attempts failed, and this one did too.
	ReasonTooManyFailures Reason = "too_many_failures"
	// ReasonTooManyTokens means that the client exceeded its token rate limit.
	ReasonTooManyTokens Reason = "too_many_tokens"
	// ReasonBusy means that too many secrets were being verified, too many assertions or DPoP proofs were
	// stored, the cluster's keys weren't available, or too many sign-ins were in progress.
	ReasonBusy Reason = "busy"
	// ReasonAudienceNotAllowed means that the client may not introspect the token, which is valid.
	ReasonAudienceNotAllowed Reason = "audience_not_allowed"
	// ReasonCredentialsExposed means that the URL contained credentials. It takes precedence over
	// other reasons.
	ReasonCredentialsExposed Reason = "credentials_exposed"
	// ReasonLinesLost means that events could not be written, or not quickly enough.
	ReasonLinesLost Reason = "lines_lost"

	// ReasonTokenRejected means that Kubernetes rejected the token of a sign-in.
	ReasonTokenRejected Reason = "token_rejected"
	// ReasonSignInRejected means that the identity provider rejected a sign-in, or that it was started
	// in a different browser or has expired.
	ReasonSignInRejected Reason = "sign_in_rejected"
	// ReasonIssuer means that the identity provider was unavailable or returned an invalid response.
	ReasonIssuer Reason = "issuer"

	// ReasonForbidden means that Kubernetes denied the user permission.
	ReasonForbidden Reason = "forbidden"
	// ReasonChanged means that the client was changed after the user loaded the page.
	ReasonChanged Reason = "changed"
	// ReasonManaged means that another tool manages the client and would revert the change.
	ReasonManaged Reason = "managed"
	// ReasonInvalid means that the requested change is not valid.
	ReasonInvalid Reason = "invalid"
	// ReasonNotFound means that the client or namespace does not exist.
	ReasonNotFound Reason = "not_found"
	// ReasonAPIServer means that the API server was unavailable or returned an error.
	ReasonAPIServer Reason = "api_server"

	// The following are the error codes of the response (RFC 6749 §5.2, RFC 8707 §2, RFC 9449 §5).

	// ReasonInvalidRequest means that the request is malformed, contradictory or incomplete.
	ReasonInvalidRequest Reason = "invalid_request"
	// ReasonInvalidClient means that authentication failed for a reason that has no specific value.
	ReasonInvalidClient Reason = "invalid_client"
	// ReasonInvalidGrant means that the assertion of a JWT bearer grant was rejected for a reason that
	// has no specific value.
	ReasonInvalidGrant Reason = "invalid_grant"
	// ReasonInvalidDPoPProof means that a DPoP proof is missing or invalid.
	ReasonInvalidDPoPProof Reason = "invalid_dpop_proof"
	// ReasonUnsupportedGrantType means that the request's grant type is not supported.
	ReasonUnsupportedGrantType Reason = "unsupported_grant_type"
	// ReasonInvalidScope means that a scope is not granted to the client.
	ReasonInvalidScope Reason = "invalid_scope"
	// ReasonInvalidTarget means that an audience is not granted to the client.
	ReasonInvalidTarget Reason = "invalid_target"
	// ReasonServerError means that the token could not be signed or the session not be encrypted.
	ReasonServerError Reason = "server_error"
)

// Package audit writes one line of JSON for each decision about a credential: who asked with
// it, what came of it and why. A line never holds a secret, nor a token.
package audit

import (
	"net/netip"
	"time"
)

// Event is a decision about a credential, or a change of one. What isn't known is left empty
// and doesn't stand in the line. docs/audit.schema.json describes the line.
type Event struct {
	Time    time.Time `json:"time"`
	Action  Action    `json:"action"`
	Outcome Outcome   `json:"outcome"`
	// Reason says why the outcome isn't Granted.
	Reason Reason `json:"reason,omitempty"`
	// Realm is the realm's name.
	Realm string `json:"realm,omitempty"`
	// ClientID is the client id; empty where there is no such client, since what was given for
	// one may be a secret in the wrong place.
	ClientID string `json:"clientId,omitempty"`
	// ClientUID is the UID of the ApiClient; empty where there is none of that id.
	ClientUID string `json:"clientUid,omitempty"`
	// SecretID names the secret that was right or was changed, as status.secrets of the ApiClient
	// does; or the public key that verified an assertion, by its "kid".
	SecretID string `json:"secretId,omitempty"`
	// Source is the address that the request came from.
	Source netip.Addr `json:"source,omitzero"`
	// Actor is the person or account that changed something; empty where a client asks for itself.
	Actor string `json:"actor,omitempty"`
	// TokenID is the "jti" of the token that was issued.
	TokenID string `json:"jti,omitempty"`
	// Lost is how many lines are missing here, in an event of ActionAudit.
	Lost uint64 `json:"lost,omitempty"`
}

// Action is what was asked for.
type Action string

const (
	// ActionToken is a request for an access token.
	ActionToken Action = "token"
	// ActionIntrospection is a client's question about a token; what it was told doesn't matter.
	ActionIntrospection Action = "introspection"
	// ActionAudit is about the audit itself.
	ActionAudit Action = "audit"

	// The rest are what a person does to a client.

	// ActionCreate makes it, with a secret.
	ActionCreate Action = "create"
	// ActionSuspend stops it.
	ActionSuspend Action = "suspend"
	// ActionResume lets it go on.
	ActionResume Action = "resume"
	// ActionRotate gives it another secret.
	ActionRotate Action = "rotate"
	// ActionEndSecret ends one of its secrets.
	ActionEndSecret Action = "end_secret"
	// ActionSetEnd sets its end, or takes it away.
	ActionSetEnd Action = "set_end"
	// ActionDelete deletes it.
	ActionDelete Action = "delete"
)

// Actions are all of them.
var Actions = []Action{
	ActionToken, ActionIntrospection, ActionAudit,
	ActionCreate, ActionSuspend, ActionResume, ActionRotate, ActionEndSecret, ActionSetEnd, ActionDelete,
}

// Outcome is what came of it.
type Outcome string

const (
	// Granted means that it was done.
	Granted Outcome = "granted"
	// Refused means that it wasn't, by a decision.
	Refused Outcome = "refused"
	// Failed means that it wasn't, by a fault.
	Failed Outcome = "failed"
)

// Outcomes are all of them.
var Outcomes = []Outcome{Granted, Refused, Failed}

// Reason is why something wasn't granted. The client may be told less.
type Reason string

const (
	// ReasonNoCredentials means that there are none, or none that can be read.
	ReasonNoCredentials Reason = "no_credentials"
	// ReasonUnknownClient means that the realm has no client of that id.
	ReasonUnknownClient Reason = "unknown_client"
	// ReasonWrongSecret means that the secret is none of the client's, or one that has ended.
	ReasonWrongSecret Reason = "wrong_secret"
	// ReasonWrongAssertion means that the assertion isn't of the client, or not valid here and now. The
	// token server's log says why, at debug level.
	ReasonWrongAssertion Reason = "wrong_assertion"
	// ReasonRealmDisabled means that the realm is suspended or not Accepted.
	ReasonRealmDisabled Reason = "realm_disabled"
	// ReasonClientDisabled means that the client is suspended or not Accepted.
	ReasonClientDisabled Reason = "client_disabled"
	// ReasonClientExpired means that spec.expiresAt of the client has passed.
	ReasonClientExpired Reason = "client_expired"
	// ReasonTooManyFailures means that others failed before it: the secret was not verified to the end.
	ReasonTooManyFailures Reason = "too_many_failures"
	// ReasonTooManyTokens means that the client has got as many tokens as it may.
	ReasonTooManyTokens Reason = "too_many_tokens"
	// ReasonBusy means that too many secrets were being verified, or assertions remembered.
	ReasonBusy Reason = "busy"
	// ReasonCredentialsExposed means that credentials stood in the URL, whatever else was wrong.
	ReasonCredentialsExposed Reason = "credentials_exposed"
	// ReasonLinesLost means that lines could not be written in time.
	ReasonLinesLost Reason = "lines_lost"

	// ReasonForbidden means that Kubernetes doesn't let the person do it.
	ReasonForbidden Reason = "forbidden"
	// ReasonChanged means that somebody else has changed the client after the person had looked.
	ReasonChanged Reason = "changed"
	// ReasonManaged means that another tool manages the client and would undo it.
	ReasonManaged Reason = "managed"
	// ReasonInvalid means that what was asked for can't be.
	ReasonInvalid Reason = "invalid"
	// ReasonNotFound means that there is no such client, or namespace.
	ReasonNotFound Reason = "not_found"
	// ReasonAPIServer means that the API server could not be reached, or could not do it.
	ReasonAPIServer Reason = "api_server"

	// The rest are the codes of the answer (RFC 6749 §5.2, RFC 8707 §2).

	// ReasonInvalidRequest means that the request contradicts itself, or lacks something.
	ReasonInvalidRequest Reason = "invalid_request"
	// ReasonInvalidClient means that the client could not authenticate, in a way that has no reason of its own.
	ReasonInvalidClient Reason = "invalid_client"
	// ReasonUnsupportedGrantType means that another grant was asked for.
	ReasonUnsupportedGrantType Reason = "unsupported_grant_type"
	// ReasonInvalidScope means that a scope is not granted to the client.
	ReasonInvalidScope Reason = "invalid_scope"
	// ReasonInvalidTarget means that an audience is not granted to the client.
	ReasonInvalidTarget Reason = "invalid_target"
	// ReasonServerError means that the token could not be signed.
	ReasonServerError Reason = "server_error"
)

// Reasons are all of them.
var Reasons = []Reason{
	ReasonNoCredentials, ReasonUnknownClient, ReasonWrongSecret, ReasonWrongAssertion, ReasonRealmDisabled, ReasonClientDisabled, ReasonClientExpired,
	ReasonTooManyFailures, ReasonTooManyTokens, ReasonBusy, ReasonCredentialsExposed, ReasonLinesLost,
	ReasonForbidden, ReasonChanged, ReasonManaged, ReasonInvalid, ReasonNotFound, ReasonAPIServer,
	ReasonInvalidRequest, ReasonInvalidClient, ReasonUnsupportedGrantType, ReasonInvalidScope, ReasonInvalidTarget, ReasonServerError,
}

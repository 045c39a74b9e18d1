package audit

// Actions lists all actions.
var Actions = []Action{
	ActionToken, ActionIntrospection, ActionAudit, ActionSignIn, ActionSignOut,
	ActionCreate, ActionSuspend, ActionResume, ActionRotate, ActionRevokeSecret, ActionSetExpiration, ActionDelete,
}

// Outcomes lists all outcomes.
var Outcomes = []Outcome{Granted, Refused, Failed}

// Reasons lists all reasons.
var Reasons = []Reason{
	ReasonNoCredentials, ReasonUnknownClient, ReasonWrongSecret, ReasonWrongAssertion, ReasonUnknownKey, ReasonWrongSubject, ReasonExchangeNotAllowed, ReasonRealmDisabled, ReasonClientDisabled, ReasonClientExpired,
	ReasonTooManyFailures, ReasonTooManyTokens, ReasonBusy, ReasonAudienceNotAllowed, ReasonCredentialsExposed, ReasonLinesLost,
	ReasonTokenRejected, ReasonSignInRejected, ReasonIssuer,
	ReasonForbidden, ReasonChanged, ReasonManaged, ReasonInvalid, ReasonNotFound, ReasonAPIServer,
	ReasonInvalidRequest, ReasonInvalidClient, ReasonInvalidGrant, ReasonInvalidDPoPProof, ReasonUnsupportedGrantType, ReasonInvalidScope, ReasonInvalidTarget, ReasonServerError,
}

package v1alpha1

// ConditionType is the type of a condition in the status of a Realm or ApiClient.
type ConditionType string

const (
	// ConditionAccepted tells whether the spec is valid and everything that it refers to
	// exists and allows it. It is about what people wrote, not about whether it works yet.
	//
	// True with the reason ReasonAccepted.
	//
	// False on a Realm with:
	// ReasonLifetimeExceedsInstanceMaximum.
	//
	// False on an ApiClient with:
	// ReasonRealmNotFound, ReasonNamespaceNotAllowed, ReasonScopeNotInRealm,
	// ReasonAudienceNotInRealm, ReasonLifetimeExceedsRealm, ReasonClientIDConflict,
	// ReasonSecretConflict, ReasonSecretNotFound, ReasonSecretNotLabelled,
	// ReasonSecretTooShort, ReasonSecretNotUsable, ReasonHashNotSupported,
	// ReasonPublicKeyNotSupported, ReasonServiceAccountNotFound.
	ConditionAccepted ConditionType = "Accepted"

	// ConditionProgrammed tells whether every live token server has acknowledged this
	// generation of the object.
	//
	// True with the reason ReasonReady.
	//
	// Unknown with ReasonProgressing while an acknowledgement is outstanding.
	//
	// False with ReasonNoTokenServer, ReasonKeysUnreadable (Realm) or
	// ReasonRecordUnreadable (ApiClient), or with the reason why the object isn't
	// Accepted.
	ConditionProgrammed ConditionType = "Programmed"

	// ConditionReady is the summary. On an ApiClient it is True only if the client can get
	// a token now, on a Realm only if its clients can.
	//
	// True with the reason ReasonReady.
	//
	// Unknown with ReasonProgressing while the operator works and needs nobody's help.
	//
	// False only for a fault or a decision: with ReasonSuspended, ReasonExpired or
	// ReasonRealmNotReady, or with the reason for which Accepted or Programmed is False.
	ConditionReady ConditionType = "Ready"

	// ConditionReconciling is there only while it is True: the operator works towards this
	// generation. Its reason is ReasonProgressing. It follows the convention of kstatus.
	ConditionReconciling ConditionType = "Reconciling"

	// ConditionStalled is there only while it is True: the object is stuck until someone
	// acts. Its reason is that of Ready. It follows the convention of kstatus.
	ConditionStalled ConditionType = "Stalled"
)

// ConditionReason is the reason of a condition in the status of a Realm or ApiClient.
type ConditionReason string

// Reasons of both kinds.
const (
	// ReasonAccepted holds when Accepted is True.
	ReasonAccepted ConditionReason = "Accepted"

	// ReasonReady holds when Programmed or Ready is True.
	ReasonReady ConditionReason = "Ready"

	// ReasonProgressing holds when Programmed or Ready is Unknown: the operator works, or
	// waits for token servers to acknowledge what it wrote. It passes by itself.
	ReasonProgressing ConditionReason = "Progressing"

	// ReasonSuspended holds when Ready is False because spec.suspend of this object is
	// true.
	ReasonSuspended ConditionReason = "Suspended"

	// ReasonNoTokenServer holds when Programmed and Ready are False because no token
	// server is alive that could acknowledge or serve anything.
	ReasonNoTokenServer ConditionReason = "NoTokenServer"
)

// Reasons of a Realm.
const (
	// ReasonLifetimeExceedsInstanceMaximum holds when Accepted is False because
	// spec.tokenLifetime is longer than the maximum of the instance's configuration.
	ReasonLifetimeExceedsInstanceMaximum ConditionReason = "LifetimeExceedsInstanceMaximum"

	// ReasonKeysUnreadable holds when Programmed and Ready are False because the realm's
	// record, which holds its signing keys, can't be read. The operator makes no new keys
	// in their place, and token servers go on with the last good record, until someone
	// restores or deletes it.
	ReasonKeysUnreadable ConditionReason = "KeysUnreadable"
)

// Reasons of an ApiClient.
const (
	// ReasonRealmNotFound holds when Accepted is False because no Realm of the name in
	// spec.realmRef exists. It passes when one is created.
	ReasonRealmNotFound ConditionReason = "RealmNotFound"

	// ReasonNamespaceNotAllowed holds when Accepted is False because the realm's
	// spec.allowedNamespaces doesn't have the namespace of the client.
	ReasonNamespaceNotAllowed ConditionReason = "NamespaceNotAllowed"

	// ReasonScopeNotInRealm holds when Accepted is False because spec.scopes has a scope
	// that the realm has not.
	ReasonScopeNotInRealm ConditionReason = "ScopeNotInRealm"

	// ReasonAudienceNotInRealm holds when Accepted is False because spec.audiences has an
	// audience that the realm has not.
	ReasonAudienceNotInRealm ConditionReason = "AudienceNotInRealm"

	// ReasonLifetimeExceedsRealm holds when Accepted is False because spec.tokenLifetime
	// is longer than the effective lifetime of the realm.
	ReasonLifetimeExceedsRealm ConditionReason = "LifetimeExceedsRealm"

	// ReasonClientIDConflict holds when Accepted is False because an older ApiClient of
	// the realm has the same client id. It passes when that one goes.
	ReasonClientIDConflict ConditionReason = "ClientIdConflict"

	// ReasonSecretConflict holds when Accepted is False because a Secret of the consumer
	// Secret's name exists that isn't this client's. That Secret is left untouched.
	ReasonSecretConflict ConditionReason = "SecretConflict"

	// ReasonRealmNotReady holds when Ready is False because that of the realm is False:
	// the realm is suspended, not Accepted, or has a fault.
	ReasonRealmNotReady ConditionReason = "RealmNotReady"

	// ReasonExpired holds when Ready is False because spec.expiresAt has passed, or that of
	// each secret in spec.secret.hashed.
	ReasonExpired ConditionReason = "Expired"

	// ReasonRecordUnreadable holds when Programmed and Ready are False because the
	// client's record, a Secret in the system namespace, can't be read. Token servers go
	// on with the last good one until someone restores or deletes it.
	ReasonRecordUnreadable ConditionReason = "RecordUnreadable"
)

// Reasons of an ApiClient whose secret isn't generated.
const (
	// ReasonSecretNotFound holds when Accepted is False because the Secret that a person
	// provides doesn't exist or lacks the key. It passes when it appears.
	ReasonSecretNotFound ConditionReason = "SecretNotFound"

	// ReasonSecretNotLabelled holds when Accepted is False because the Secret that a
	// person provides lacks the label which allows the operator to read it.
	ReasonSecretNotLabelled ConditionReason = "SecretNotLabelled"

	// ReasonSecretTooShort holds when Accepted is False because the secret that a person
	// provides has fewer than 16 characters.
	ReasonSecretTooShort ConditionReason = "SecretTooShort"

	// ReasonSecretNotUsable holds when Accepted is False because no client can send the
	// secret that a person provides: it isn't UTF-8, has a control character such as a
	// line break at its end, or is longer than 1024 characters.
	ReasonSecretNotUsable ConditionReason = "SecretNotUsable"

	// ReasonHashNotSupported holds when Accepted is False because a hash that a person
	// provides has a form or parameters which aren't supported.
	ReasonHashNotSupported ConditionReason = "HashNotSupported"
)

// Reasons of an ApiClient that authenticates without a secret.
const (
	// ReasonPublicKeyNotSupported holds when Accepted is False because a key of
	// spec.publicKeys can't be used: its point isn't on the curve, or its modulus has fewer
	// than 2048 or more than 4096 bits.
	ReasonPublicKeyNotSupported ConditionReason = "PublicKeyNotSupported"

	// ReasonServiceAccountNotFound holds when Accepted is False because none of the service
	// accounts in spec.serviceAccounts exists, and the client has neither keys nor a secret.
	// It passes when one is created.
	ReasonServiceAccountNotFound ConditionReason = "ServiceAccountNotFound"
)

package v1beta1

// ConditionType is the type of a condition in the status of a Realm, an ApiClient, or the Instance.
type ConditionType string

const (
	// ConditionAccepted reports whether the spec is valid, and whether everything that it
	// references exists and allows the reference. It depends only on what users wrote, not on
	// whether the object works yet.
	//
	// It is True with the reason ReasonAccepted.
	//
	// It is False on a Realm with ReasonLifetimeExceedsInstanceMaximum or ReasonClaimsTooLarge.
	//
	// It is False on an ApiClient with ReasonRealmNotFound, ReasonNamespaceNotAllowed,
	// ReasonScopeNotInRealm, ReasonAudienceNotInRealm, ReasonNotGranted,
	// ReasonLifetimeExceedsRealm, ReasonClientIDReleased, ReasonClientIDConflict,
	// ReasonCredentialsSecretsDisabled, ReasonSecretConflict, ReasonSecretNotFound,
	// ReasonSecretNotLabeled, ReasonSecretTooShort, ReasonSecretNotUsable, ReasonHashNotSupported,
	// ReasonPublicKeyNotSupported, ReasonServiceAccountNotFound, ReasonIssuerNotInRealm,
	// ReasonClaimNotInRealm, ReasonClaimsTooLarge, or ReasonTokenTooLarge.
	ConditionAccepted ConditionType = "Accepted"

	// ConditionProgrammed reports whether every live token server has acknowledged this generation
	// of the object.
	//
	// It is True with the reason ReasonReady.
	//
	// It is Unknown with ReasonProgressing while an acknowledgement is outstanding.
	//
	// It is False with ReasonNoTokenServer, with ReasonKeysUnreadable, ReasonKeysMissing, or
	// ReasonKMSUnavailable (Realm) or ReasonRecordUnreadable or ReasonStatusIndexUnavailable (ApiClient),
	// or with the reason of Accepted if that is False.
	ConditionProgrammed ConditionType = "Programmed"

	// ConditionReady summarizes the other conditions. On an ApiClient it is True only if the client
	// can get a token now. On a Realm it is True only if its clients can. On the Instance it is True
	// only if a token server is live and every live token server is Current.
	//
	// It is True with the reason ReasonReady.
	//
	// It is Unknown with ReasonProgressing while the operator is working and no user action is
	// needed, and on the Instance while a live token server lags behind the latest records.
	//
	// It is False only for a failure or an intentional state: with ReasonSuspended,
	// ReasonRealmSuspended, ReasonExpired, or ReasonRealmNotReady, with ReasonKMSUnavailable (Realm)
	// while a live token server has not decrypted the active key, with ReasonStatusIndexUnavailable
	// (ApiClient), or with the reason for which Accepted or Programmed is False. On the Instance it is
	// False with ReasonUnknownContainer, ReasonNoTokenServer, ReasonRecordsNotLoaded, or
	// ReasonKMSUnavailable.
	ConditionReady ConditionType = "Ready"

	// ConditionIssuersResolved is present on a Realm only while spec.trustedIssuers is set. It
	// reports whether the operator can get the public keys of every trusted issuer. It does not
	// affect Ready, because token servers keep using the last keys unless the issuer revoked them.
	//
	// It is True with the reason ReasonIssuersResolved.
	//
	// It is Unknown with ReasonProgressing until the operator has the first result of every issuer.
	//
	// It is False with ReasonTrustedIssuerNotSupported or ReasonIssuerNotResolved. The message names
	// the issuer and the cause, and, for ReasonIssuerNotResolved, the time of the first failure.
	ConditionIssuersResolved ConditionType = "IssuersResolved"

	// ConditionExchangesResolved is present on a Realm only while spec.exchanges is set. It reports
	// whether everything exists that the rules refer to. It does not affect Ready, because the parts of
	// a rule that do not exist have no effect, and the other rules work.
	//
	// It is True with the reason ReasonExchangesResolved.
	//
	// It is False with ReasonExchangeNotResolved. The message names the rule, what is missing, and what
	// to do.
	ConditionExchangesResolved ConditionType = "ExchangesResolved"

	// ConditionKeysEncrypted is present on a Realm only if the instance configuration has
	// keyEncryption.kms, or if a signing key of the realm is encrypted. It reports whether the KMS
	// plugin has encrypted the private parts of all signing keys, and can encrypt those that the realm
	// needs. It does not affect Ready, because token servers keep using the keys that they have.
	//
	// It is True with the reason ReasonKeysEncrypted.
	//
	// It is Unknown with ReasonProgressing while the plugin encrypts a new key, and while a rotation
	// replaces a key that is stored in another form than new ones.
	//
	// It is False with ReasonRotationRequired, ReasonKMSUnavailable, ReasonKMSNotConfigured, or
	// ReasonEncryptionDisabled.
	ConditionKeysEncrypted ConditionType = "KeysEncrypted"

	// ConditionReconciling is present only while it is True: the operator is reconciling this
	// generation. Its reason is ReasonProgressing. It follows the kstatus convention.
	ConditionReconciling ConditionType = "Reconciling"

	// ConditionStalled is present only while it is True: the object makes no progress until a user
	// acts. It has the same reason as Ready. It follows the kstatus convention.
	ConditionStalled ConditionType = "Stalled"

	// ConditionWeaklyHashed is present on an ApiClient only while it is True: a secret of the
	// client has an imported hash that is easier to brute-force than Argon2id. Its reason is
	// ReasonImportedHash. It does not affect Ready.
	ConditionWeaklyHashed ConditionType = "WeaklyHashed"

	// ConditionOldSecretInUse is present on an ApiClient only during a rotation with
	// expireWhenUnused, while the old secret cannot expire because it is, or may be, in use. The
	// message names the secret. It does not affect Ready.
	//
	// It is True with ReasonOldSecretUsed: the old secret was used since the new one was delivered.
	//
	// It is Unknown with ReasonUsageIncomplete: the reports of the token servers are incomplete.
	ConditionOldSecretInUse ConditionType = "OldSecretInUse"

	// ConditionRestored is present on an ApiClient that was restored from a backup, while it accepts
	// secrets of the backup in addition to its own. It is True with ReasonRestoredFromBackup. The
	// message lists the secrets and when they expire. It does not affect Ready.
	ConditionRestored ConditionType = "Restored"

	// ConditionCertificatesIssued is present on the Instance only with the managed CA. It reports
	// whether the CA can sign the certificate of the token servers. It does not affect Ready, because
	// token servers use their certificate until it expires.
	//
	// It is True with ReasonCertificatesIssued, Unknown with ReasonProgressing until there is a CA, and
	// False with ReasonCAUnusable.
	ConditionCertificatesIssued ConditionType = "CertificatesIssued"

	// ConditionKMSConnected is present on the Instance only while new signing keys are encrypted with a
	// KMS plugin. It reports whether the plugin of the operator responds. It does not affect Ready,
	// because only new keys need the plugin.
	//
	// It is True with ReasonKMSConnected, Unknown with ReasonProgressing until the plugin was asked for
	// the first time, and False with ReasonKMSUnavailable.
	ConditionKMSConnected ConditionType = "KMSConnected"

	// ConditionMemorySufficient is present on the Instance only while it is False, with
	// ReasonMemoryLimitTooLow. It does not affect Ready, because token servers have other limits.
	ConditionMemorySufficient ConditionType = "MemorySufficient"
)

// ConditionReason is the reason of a condition in the status of a Realm, an ApiClient, or the Instance.
type ConditionReason string

// Reasons that Realms and ApiClients share, and the Instance in part.
const (
	// ReasonAccepted is used with the Accepted condition when it is True.
	ReasonAccepted ConditionReason = "Accepted"

	// ReasonReady is used with the Programmed and Ready conditions when they are True.
	ReasonReady ConditionReason = "Ready"

	// ReasonProgressing is used with the Programmed and Ready conditions when they are Unknown: the
	// operator is working, or is waiting for token servers to acknowledge a change. It resolves
	// without user action.
	ReasonProgressing ConditionReason = "Progressing"

	// ReasonSuspended is used with the Ready condition when it is False because spec.suspend of the
	// object is true.
	ReasonSuspended ConditionReason = "Suspended"

	// ReasonNoTokenServer is used with the Programmed and Ready conditions when they are False
	// because there are no live token servers to acknowledge or serve anything.
	ReasonNoTokenServer ConditionReason = "NoTokenServer"

	// ReasonClaimsTooLarge is used with the Accepted condition when it is False because the fixed
	// claims, those of the realm and of the client together, are more than 16 or have more than 2048
	// bytes as JSON.
	ReasonClaimsTooLarge ConditionReason = "ClaimsTooLarge"

	// ReasonRestoredFromBackup is used with the Restored condition when it is True.
	ReasonRestoredFromBackup ConditionReason = "RestoredFromBackup"
)

// Reasons for Realms.
const (
	// ReasonLifetimeExceedsInstanceMaximum is used with the Accepted condition when it is False
	// because spec.tokenLifetime exceeds the maximum in the instance configuration.
	ReasonLifetimeExceedsInstanceMaximum ConditionReason = "LifetimeExceedsInstanceMaximum"

	// ReasonTrustedIssuerNotSupported is used with the IssuersResolved condition when it is False
	// because an entry of spec.trustedIssuers cannot be used: its keys or certificates cannot be
	// parsed, its key set has a private, symmetric, or no supported key, or it is the realm's own
	// issuer. Its tokens are rejected; the other issuers of the Realm are not affected.
	ReasonTrustedIssuerNotSupported ConditionReason = "TrustedIssuerNotSupported"

	// ReasonIssuersResolved is used with the IssuersResolved condition when it is True.
	ReasonIssuersResolved ConditionReason = "IssuersResolved"

	// ReasonIssuerNotResolved is used with the IssuersResolved condition when it is False because
	// the operator cannot get the keys of a trusted issuer. It keeps trying. Token servers keep using
	// the last keys, unless the key set had no supported key, or a private or symmetric one.
	ReasonIssuerNotResolved ConditionReason = "IssuerNotResolved"

	// ReasonExchangesResolved is used with the ExchangesResolved condition when it is True.
	ReasonExchangesResolved ConditionReason = "ExchangesResolved"

	// ReasonExchangeNotResolved is used with the ExchangesResolved condition when it is False because a
	// rule in spec.exchanges refers to an audience or scope that the realm does not define, to an
	// issuer that is not in spec.trustedIssuers or whose uses do not contain the use of the rule, or to a
	// client ID that no ApiClient in the selected namespaces has.
	ReasonExchangeNotResolved ConditionReason = "ExchangeNotResolved"

	// ReasonKeysUnreadable is used with the Programmed and Ready conditions when they are False
	// because the realm's record, which contains its signing keys, cannot be read. The operator
	// does not generate replacement keys, and token servers keep serving the last known good
	// record, until an administrator restores or deletes the record.
	ReasonKeysUnreadable ConditionReason = "KeysUnreadable"

	// ReasonKeysMissing is used with the Programmed and Ready conditions when they are False
	// because the realm's record does not exist, although status.signingKeys lists keys that it
	// contained. The realm issues no tokens, and its tokens are rejected. The operator generates no
	// new keys until an administrator restores the record from a backup, or until a rotation is due
	// whose spec.signing.rotationRequestTime is later than the creation of every listed key.
	ReasonKeysMissing ConditionReason = "KeysMissing"

	// ReasonKeysEncrypted is used with the KeysEncrypted condition when it is True.
	ReasonKeysEncrypted ConditionReason = "KeysEncrypted"

	// ReasonRotationRequired is used with the KeysEncrypted condition when it is False because signing
	// keys are in plaintext although keyEncryption.kms is set, or encrypted although
	// keyEncryption.kms.decrypt is true. A rotation replaces them.
	ReasonRotationRequired ConditionReason = "RotationRequired"

	// ReasonKMSUnavailable is used with the KeysEncrypted condition when it is False because the KMS
	// plugin failed to encrypt a new key that the realm needs. The operator keeps trying. Keys that
	// token servers already use stay in use, and rotations wait. It is also used with the
	// Programmed and Ready conditions when they are False because the realm has no key yet, and with
	// the Ready condition, also of the Instance, when live token servers have not decrypted the active
	// key. On the Instance, it is used with the KMSConnected condition when it is False because the
	// plugin of the operator does not respond.
	ReasonKMSUnavailable ConditionReason = "KMSUnavailable"

	// ReasonKMSNotConfigured is used with the KeysEncrypted condition when it is False because a
	// signing key is encrypted, but the instance configuration has no keyEncryption.kms. The key is
	// kept, and no new keys are generated. It resolves when the KMS plugin is configured again.
	ReasonKMSNotConfigured ConditionReason = "KMSNotConfigured"

	// ReasonEncryptionDisabled is used with the KeysEncrypted condition when it is False because
	// keyEncryption.kms.decrypt is true and all signing keys are stored in plaintext, so that the KMS
	// plugin can be removed from the instance configuration.
	ReasonEncryptionDisabled ConditionReason = "EncryptionDisabled"
)

// Reasons for ApiClients.
const (
	// ReasonRealmNotFound is used with the Accepted condition when it is False because the Realm in
	// spec.realmRef does not exist. It resolves when the Realm is created.
	ReasonRealmNotFound ConditionReason = "RealmNotFound"

	// ReasonNamespaceNotAllowed is used with the Accepted condition when it is False because no
	// grant of the realm includes the client's namespace.
	ReasonNamespaceNotAllowed ConditionReason = "NamespaceNotAllowed"

	// ReasonScopeNotInRealm is used with the Accepted condition when it is False because
	// spec.scopes lists a scope that the realm does not define.
	ReasonScopeNotInRealm ConditionReason = "ScopeNotInRealm"

	// ReasonAudienceNotInRealm is used with the Accepted condition when it is False because
	// spec.audiences or spec.introspection.audiences lists an audience that the realm does not
	// define.
	ReasonAudienceNotInRealm ConditionReason = "AudienceNotInRealm"

	// ReasonClaimNotInRealm is used with the Accepted condition when it is False because spec.claims
	// has a claim that spec.allowedClaims of the realm does not list, or that the realm sets itself.
	ReasonClaimNotInRealm ConditionReason = "ClaimNotInRealm"

	// ReasonTokenTooLarge is used with the Accepted condition when it is False because a token with all
	// scopes and audiences of the client could have more than 6144 bytes.
	ReasonTokenTooLarge ConditionReason = "TokenTooLarge"

	// ReasonNotGranted is used with the Accepted condition when it is False because grants of the
	// realm include the client's namespace, but none of them covers all of the client's scopes,
	// audiences, issuers, and client ID. The message names the grant that comes nearest and what it
	// lacks.
	ReasonNotGranted ConditionReason = "NotGranted"

	// ReasonLifetimeExceedsRealm is used with the Accepted condition when it is False because
	// spec.tokenLifetime exceeds the effective lifetime of the realm.
	ReasonLifetimeExceedsRealm ConditionReason = "LifetimeExceedsRealm"

	// ReasonClientIDConflict is used with the Accepted condition when it is False because another
	// ApiClient of the realm holds the client ID. It resolves when that ApiClient is deleted, or
	// when it releases the client ID.
	ReasonClientIDConflict ConditionReason = "ClientIDConflict"

	// ReasonClientIDReleased is used with the Accepted condition when it is False because the
	// client released its client ID, as its annotation auth.realmkeeper.dev/release requests. It
	// resolves after a minute: the client then acquires the client ID again, unless another one
	// has.
	ReasonClientIDReleased ConditionReason = "ClientIDReleased"

	// ReasonSecretConflict is used with the Accepted condition when it is False because a Secret
	// with the name of the credentials Secret exists and the client does not own it. The operator
	// does not modify that Secret.
	ReasonSecretConflict ConditionReason = "SecretConflict"

	// ReasonRealmSuspended is used with the Ready condition when it is False because spec.suspend of
	// the realm is true. It is intentional and resolves when the realm is resumed.
	ReasonRealmSuspended ConditionReason = "RealmSuspended"

	// ReasonRealmNotReady is used with the Ready condition when it is False because the Ready
	// condition of the realm is False: the realm is not Accepted or has failed.
	ReasonRealmNotReady ConditionReason = "RealmNotReady"

	// ReasonExpired is used with the Ready condition when it is False because spec.expirationTime, or
	// the expirationTime of every secret in spec.secret.hashed, has passed.
	ReasonExpired ConditionReason = "Expired"

	// ReasonCredentialsSecretsDisabled is used with the Accepted condition when it is False because
	// the client's secret is generated or provided, but the operator was installed without
	// permissions for Secrets. It is also used if the secret is generated and the client is in the
	// system namespace or the records namespace.
	ReasonCredentialsSecretsDisabled ConditionReason = "CredentialsSecretsDisabled"

	// ReasonRecordUnreadable is used with the Programmed and Ready conditions when they are False
	// because the client's record, a Secret in the records namespace, cannot be read. Token servers
	// keep serving the last known good record until an administrator restores or deletes the
	// record.
	ReasonRecordUnreadable ConditionReason = "RecordUnreadable"

	// ReasonStatusIndexUnavailable is used with the Ready condition, and for a new client with the
	// Programmed condition, when they are False because the client cannot have another index in the
	// status list of the realm: the client or its namespace has too many indexes to which tokens that have
	// not expired can refer, or the realm has no free index. It resolves when an index is released.
	ReasonStatusIndexUnavailable ConditionReason = "StatusIndexUnavailable"
)

// Reasons for ApiClients whose secret is not generated.
const (
	// ReasonSecretNotFound is used with the Accepted condition when it is False because a Secret that
	// provides the client secret or a hash of it, or the key in it, does not exist. It resolves when
	// both exist.
	ReasonSecretNotFound ConditionReason = "SecretNotFound"

	// ReasonSecretNotLabeled is used with the Accepted condition when it is False because a
	// Secret that provides the client secret or a hash of it does not have the label that allows the
	// operator to read it.
	ReasonSecretNotLabeled ConditionReason = "SecretNotLabeled"

	// ReasonSecretTooShort is used with the Accepted condition when it is False because the
	// provided client secret has fewer than 16 characters.
	ReasonSecretTooShort ConditionReason = "SecretTooShort"

	// ReasonSecretNotUsable is used with the Accepted condition when it is False because clients
	// cannot send the provided client secret: it is not UTF-8, contains a control character such as
	// a trailing line break, or has more than 1024 characters.
	ReasonSecretNotUsable ConditionReason = "SecretNotUsable"

	// ReasonHashNotSupported is used with the Accepted condition when it is False because the
	// format or the parameters of a hash in spec.secret.hashed are not supported.
	ReasonHashNotSupported ConditionReason = "HashNotSupported"

	// ReasonImportedHash is used with the WeaklyHashed condition when it is True because a secret from
	// spec.secret.hashed is hashed with PBKDF2 or bcrypt. The message names the secrets. It resolves
	// when they are replaced by a generated or provided secret or by an Argon2id hash, and have
	// expired.
	ReasonImportedHash ConditionReason = "ImportedHash"
)

// Reasons for ApiClients that authenticate without a secret.
const (
	// ReasonPublicKeyNotSupported is used with the Accepted condition when it is False because a
	// key in spec.publicKeys cannot be used: it is not a valid public key of a supported type and
	// size, it contradicts keyID or algorithm, it is an RSA key without an algorithm, or it is a
	// private key.
	ReasonPublicKeyNotSupported ConditionReason = "PublicKeyNotSupported"

	// ReasonServiceAccountNotFound is used with the Accepted condition when it is False because
	// none of the service accounts in spec.identities exists, and
	// the client has no other way to authenticate. It resolves when one of them is created.
	ReasonServiceAccountNotFound ConditionReason = "ServiceAccountNotFound"

	// ReasonIssuerNotInRealm is used with the Accepted condition when it is False because
	// spec.identities names an issuer that spec.trustedIssuers of the realm does not list, or whose
	// uses do not contain ClientAuthentication. It resolves when the realm lists it.
	ReasonIssuerNotInRealm ConditionReason = "IssuerNotInRealm"

	// ReasonOldSecretUsed is used with the OldSecretInUse condition: a client still authenticates
	// with the old secret. It expires when it has been unused for rotation.expireWhenUnused.after,
	// or after rotation.expireWhenUnused.max.
	ReasonOldSecretUsed ConditionReason = "OldSecretUsed"

	// ReasonUsageIncomplete is used with the OldSecretInUse condition when token servers have not
	// reported all uses, for example because one was killed, so the old secret counts as used.
	ReasonUsageIncomplete ConditionReason = "UsageIncomplete"
)

// Reasons for the Instance.
const (
	// ReasonUnknownContainer is used with the Ready condition when it is False because the Deployment
	// of the token servers has a container that the operator has not added.
	ReasonUnknownContainer ConditionReason = "UnknownContainer"

	// ReasonRecordsNotLoaded is used with the Ready condition when it is False because a live token
	// server cannot read or enforce some records.
	ReasonRecordsNotLoaded ConditionReason = "RecordsNotLoaded"

	// ReasonCertificatesIssued is used with the CertificatesIssued condition when it is True.
	ReasonCertificatesIssued ConditionReason = "CertificatesIssued"

	// ReasonCAUnusable is used with the CertificatesIssued condition when it is False because the
	// Secret with the managed CA is damaged, or has a CA that cannot sign for the token servers. The
	// operator does not replace it, because clients trust it.
	ReasonCAUnusable ConditionReason = "CAUnusable"

	// ReasonKMSConnected is used with the KMSConnected condition when it is True.
	ReasonKMSConnected ConditionReason = "KMSConnected"

	// ReasonMemoryLimitTooLow is used with the MemorySufficient condition when an operator needs more
	// than four fifths of the memory that its Go runtime may use, which is nine tenths of its memory limit.
	ReasonMemoryLimitTooLow ConditionReason = "MemoryLimitTooLow"
)

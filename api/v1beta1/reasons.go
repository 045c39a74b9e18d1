package v1beta1

import (
	"maps"
	"slices"
)

// Severity says what the reason of a condition means for the object.
type Severity string

const (
	// SeverityNone means that everything works as specified.
	SeverityNone Severity = "None"
	// SeverityProgress means that the operator or a token server is working. It ends without user action.
	SeverityProgress Severity = "Progress"
	// SeverityIntended means that the spec asks for this state.
	SeverityIntended Severity = "Intended"
	// SeverityConsequence means that the object can't be used because of another one, which has the problem.
	SeverityConsequence Severity = "Consequence"
	// SeverityWaiting means that something else must appear before the object can be used.
	SeverityWaiting Severity = "Waiting"
	// SeverityWarning means that the object works, at least in part, and needs attention.
	SeverityWarning Severity = "Warning"
	// SeverityError means that the object can't be used until someone changes it, or another object. The
	// condition Stalled is then True.
	SeverityError Severity = "Error"
)

// Explanation explains the reason of a condition. The message of the condition has the details, such as
// names.
// +kubebuilder:object:generate=false
type Explanation struct {
	Severity Severity
	// Cause says in one sentence what the reason means.
	Cause string
	// Action says what to do. It is empty if there is nothing to do.
	Action string
}

// Explain explains a reason. It returns false for one that this version doesn't know, such as one of a newer
// operator.
func (r ConditionReason) Explain() (Explanation, bool) {
	e, ok := explanations[r]
	return e, ok
}

// Severity returns the severity of a reason. A reason that this version doesn't know is an error.
func (r ConditionReason) Severity() Severity {
	if e, ok := explanations[r]; ok {
		return e.Severity
	}
	return SeverityError
}

// Reasons returns all reasons in the order of docs/reasons.md.
func Reasons() []ConditionReason { return slices.Sorted(maps.Keys(explanations)) }

var explanations = map[ConditionReason]Explanation{
	ReasonAccepted: {
		Severity: SeverityNone,
		Cause:    "The spec is valid, and the realm allows the client.",
	},
	ReasonReady: {
		Severity: SeverityNone,
		Cause:    "Every live token server has loaded the latest change.",
	},
	ReasonProgressing: {
		Severity: SeverityProgress,
		Cause:    "The operator is working, or is waiting for a token server to load the latest change.",
		Action:   "Wait. If it takes longer than a minute, look for a token server that is stale or not running.",
	},
	ReasonSuspended: {
		Severity: SeverityIntended,
		Cause:    "spec.suspend is true, so no tokens are issued. Nothing was deleted.",
		Action:   "Set spec.suspend to false when it may get tokens again.",
	},
	ReasonNoTokenServer: {
		Severity: SeverityWaiting,
		Cause:    "No token server is running, so no client can get a token.",
		Action:   "Check the token server Deployment and its Pods.",
	},
	ReasonClaimsTooLarge: {
		Severity: SeverityError,
		Cause:    "The fixed claims of the realm and of the client together are more than 16, or larger than 2048 bytes.",
		Action:   "Remove or shorten claims in spec.claims of the Realm or of the ApiClient.",
	},
	ReasonRestoredFromBackup: {
		Severity: SeverityNone,
		Cause:    "The client was restored from a backup and still accepts secrets of the backup.",
		Action:   "When no workload uses the secrets of the backup any longer, reject them with \"kubectl realmkeeper revoke\".",
	},
	ReasonLifetimeExceedsInstanceMaximum: {
		Severity: SeverityError,
		Cause:    "spec.tokenLifetime exceeds security.maximumTokenLifetime of the instance configuration.",
		Action:   "Set a shorter lifetime, or remove the field to use the default of the instance.",
	},
	ReasonTrustedIssuerNotSupported: {
		Severity: SeverityWarning,
		Cause:    "An entry of spec.trustedIssuers cannot be used, so its tokens are rejected. The other issuers work.",
		Action:   "Correct its keys, certificates, URL, or audience.",
	},
	ReasonIssuersResolved: {
		Severity: SeverityNone,
		Cause:    "The token servers have the public keys of every trusted issuer.",
	},
	ReasonIssuerNotResolved: {
		Severity: SeverityWarning,
		Cause:    "The operator cannot get the public keys of a trusted issuer. Token servers keep the last keys unless the issuer revoked them.",
		Action:   "Check that the operator can reach the issuer, and that its certificate is trusted. The operator keeps trying.",
	},
	ReasonExchangesResolved: {
		Severity: SeverityNone,
		Cause:    "Everything exists that the rules in spec.exchanges refer to.",
	},
	ReasonExchangeNotResolved: {
		Severity: SeverityWarning,
		Cause:    "A rule in spec.exchanges refers to an audience, scope, issuer, or client that does not exist. This part of the rule has no effect. The other rules work.",
		Action:   "Correct the rule, or create what is missing.",
	},
	ReasonKeysUnreadable: {
		Severity: SeverityError,
		Cause:    "The record of the realm, a Secret with its signing keys in the records namespace, is damaged. Token servers keep using the last version that they could read.",
		Action:   "Run \"kubectl realmkeeper restore\" with a backup, which replaces the record. Without a backup, delete the Secret and rotate the signing key: the realm gets new keys, and its tokens fail verification.",
	},
	ReasonKeysMissing: {
		Severity: SeverityError,
		Cause:    "The record of the realm, a Secret with its signing keys in the records namespace, no longer exists. No tokens are issued, and existing tokens are rejected.",
		Action:   "Run \"kubectl realmkeeper restore\" with a backup. Without a backup, rotate the signing key: the realm gets new keys, and its tokens stay invalid.",
	},
	ReasonKeysEncrypted: {
		Severity: SeverityNone,
		Cause:    "The KMS plugin has encrypted the private parts of all signing keys in the record.",
	},
	ReasonRotationRequired: {
		Severity: SeverityWarning,
		Cause:    "A signing key is stored in plaintext although a KMS plugin is configured, or encrypted although keyEncryption.kms.decrypt is true.",
		Action:   "Rotate the signing key. \"kubectl realmkeeper rotate --all\" does so for all realms.",
	},
	ReasonKMSUnavailable: {
		Severity: SeverityWarning,
		Cause:    "The KMS plugin does not respond, failed to encrypt a new signing key, or failed to decrypt the active key for the token servers that the message names. Keys that token servers already use stay in use, and new keys wait.",
		Action:   "Check the containers kms-plugin in the Pods of the operator and of these token servers, and the logs. They keep trying.",
	},
	ReasonKMSNotConfigured: {
		Severity: SeverityWarning,
		Cause:    "A signing key is encrypted, but the instance configuration has no KMS plugin. Restarted token servers cannot use the key, and no new key is generated.",
		Action:   "Configure the same KMS plugin in keyEncryption.kms again. To disable encryption, set keyEncryption.kms.decrypt first.",
	},
	ReasonEncryptionDisabled: {
		Severity: SeverityNone,
		Cause:    "keyEncryption.kms.decrypt is true, and all signing keys are stored in plaintext.",
		Action:   "When this is the case for all Realms, remove keyEncryption.kms from the instance configuration. To encrypt keys again, set decrypt to false.",
	},
	ReasonRealmNotFound: {
		Severity: SeverityWaiting,
		Cause:    "The Realm in spec.realmRef does not exist.",
		Action:   "Create the Realm. If its name is misspelled, delete this ApiClient and create it with another spec.realmRef.",
	},
	ReasonNamespaceNotAllowed: {
		Severity: SeverityError,
		Cause:    "No grant of the realm includes the namespace of the client.",
		Action:   "Ask an administrator of the realm to add a grant. \"kubectl realmkeeper explain\" suggests one.",
	},
	ReasonScopeNotInRealm: {
		Severity: SeverityError,
		Cause:    "spec.scopes lists scopes that the realm does not define.",
		Action:   "Remove them from the client, or have them added to spec.scopes of the Realm.",
	},
	ReasonAudienceNotInRealm: {
		Severity: SeverityError,
		Cause:    "spec.audiences or spec.introspection.audiences lists audiences that the realm does not define.",
		Action:   "Remove them from the client, or have them added to spec.audiences of the Realm.",
	},
	ReasonTokenTooLarge: {
		Severity: SeverityError,
		Cause:    "A token with all scopes and audiences of the client could be larger than 6144 bytes, which APIs and gateways reject.",
		Action:   "List fewer or shorter scopes and audiences in spec of the ApiClient, or use several clients.",
	},
	ReasonClaimNotInRealm: {
		Severity: SeverityError,
		Cause:    "spec.claims sets claims that the realm does not allow, or that it sets itself.",
		Action:   "Remove them from the client, or have them added to spec.allowedClaims of the Realm.",
	},
	ReasonNotGranted: {
		Severity: SeverityError,
		Cause:    "No single grant of the realm covers all scopes, audiences, issuers, and the client ID of the client.",
		Action:   "Change the client so that one grant covers it, or ask an administrator of the realm to add a grant. \"kubectl realmkeeper explain\" suggests one.",
	},
	ReasonLifetimeExceedsRealm: {
		Severity: SeverityError,
		Cause:    "spec.tokenLifetime exceeds the token lifetime of the realm.",
		Action:   "Set a shorter lifetime, or remove the field to use that of the realm.",
	},
	ReasonClientIDConflict: {
		Severity: SeverityError,
		Cause:    "Another ApiClient of the realm holds the client ID.",
		Action:   "Delete one of the two, or create this client with another client ID, or let the other one release it with \"kubectl realmkeeper release\".",
	},
	ReasonClientIDReleased: {
		Severity: SeverityWaiting,
		Cause:    "The client has released its client ID. For a minute, only other clients can acquire it.",
		Action:   "Wait. If no other client acquires the client ID, this one does.",
	},
	ReasonSecretConflict: {
		Severity: SeverityError,
		Cause:    "A Secret with the name of the credentials Secret exists, and this client does not own it.",
		Action:   "Delete that Secret if nothing uses it. Otherwise create this client with another spec.secret.generated.secretName.",
	},
	ReasonRealmSuspended: {
		Severity: SeverityIntended,
		Cause:    "spec.suspend of the realm is true, so its clients get no tokens. Nothing was deleted.",
		Action:   "Set spec.suspend of the Realm to false when its clients may get tokens again.",
	},
	ReasonRealmNotReady: {
		Severity: SeverityConsequence,
		Cause:    "The realm is not Accepted or has failed.",
		Action:   "Follow the remedy for the Ready condition of the Realm. The client is then reconciled automatically.",
	},
	ReasonExpired: {
		Severity: SeverityIntended,
		Cause:    "spec.expirationTime has passed, or every secret in spec.secret.hashed has expired.",
		Action:   "Set a later expiration or remove it. If all secrets expired, add another one.",
	},
	ReasonCredentialsSecretsDisabled: {
		Severity: SeverityError,
		Cause:    "This installation does not store client secrets in Secrets, or the namespace of the client contains the Secrets of Realmkeeper itself.",
		Action:   "Replace spec.secret with spec.secret.hashed, spec.publicKeys, or spec.identities. If the message names the namespace, you can also create the client in another one.",
	},
	ReasonRecordUnreadable: {
		Severity: SeverityError,
		Cause:    "The record of the client, a Secret in the records namespace, is damaged. Token servers keep using the last version that they could read.",
		Action:   "Ask an administrator to run \"kubectl realmkeeper restore\" with a backup, which replaces the record. Without a backup, delete the Secret with the record: the operator writes a new one for the client secret that workloads have. Replaced secrets and the identity of an earlier restore are lost.",
	},
	ReasonStatusIndexUnavailable: {
		Severity: SeverityWaiting,
		Cause:    "The client cannot get another index in the status list of the realm, because tokensValidAfterTime was changed, or clients of the namespace were deleted, too often, or because the realm has too many clients.",
		Action:   "Wait until the time in the message. To stop the client, set spec.suspend, which needs no index. If the realm has no free index, delete clients that are not used.",
	},
	ReasonSecretNotFound: {
		Severity: SeverityWaiting,
		Cause:    "The Secret that provides the client secret or a hash of it does not exist, or does not have the key.",
		Action:   "Create the Secret with the label, and with the client secret or its hash under the key that the spec names. If the Secret exists, add the key.",
	},
	ReasonSecretNotLabeled: {
		Severity: SeverityError,
		Cause:    "The Secret that provides the client secret or a hash of it lacks the label that allows the operator to read it.",
		Action:   "Add the label. The operator rechecks every minute.",
	},
	ReasonSecretTooShort: {
		Severity: SeverityError,
		Cause:    "The provided client secret has fewer than 16 characters, so it can be guessed.",
		Action:   "Replace it, for example with the output of \"openssl rand -hex 32\".",
	},
	ReasonSecretNotUsable: {
		Severity: SeverityError,
		Cause:    "Clients cannot send the provided client secret: it is too long, is not UTF-8, or has a control character such as a line break.",
		Action:   "Replace it, for example with the output of \"openssl rand -hex 32\".",
	},
	ReasonHashNotSupported: {
		Severity: SeverityError,
		Cause:    "A hash in spec.secret.hashed has a format or parameters that are not supported.",
		Action:   "Replace it with the hash of a new secret.",
	},
	ReasonImportedHash: {
		Severity: SeverityWarning,
		Cause:    "A secret has an imported hash that is easier to brute-force than Argon2id. The client works.",
		Action:   "Add the hash of a new secret, let the workloads use it, and remove the imported one.",
	},
	ReasonPublicKeyNotSupported: {
		Severity: SeverityError,
		Cause:    "A key in spec.publicKeys is private, invalid, or of a type or size that is not supported.",
		Action:   "Correct the key. Treat a private key as compromised and replace the pair.",
	},
	ReasonServiceAccountNotFound: {
		Severity: SeverityWaiting,
		Cause:    "None of the service accounts of the client exists, and it has no other way to authenticate.",
		Action:   "Create one of them.",
	},
	ReasonIssuerNotInRealm: {
		Severity: SeverityError,
		Cause:    "spec.identities names an issuer that the realm does not trust.",
		Action:   "Remove the identity from the client, or have its issuer added to spec.trustedIssuers of the Realm.",
	},
	ReasonOldSecretUsed: {
		Severity: SeverityWarning,
		Cause:    "A workload still uses the old secret after a rotation, so it stays valid, at most for rotation.expireWhenUnused.max.",
		Action:   "Restart the workloads that started before the rotation. The audit events of the token servers contain the ID of the secret and the address of the workload.",
	},
	ReasonUsageIncomplete: {
		Severity: SeverityWarning,
		Cause:    "A token server was killed or does not report uses, so it is not known whether the old secret is still used.",
		Action:   "Wait, or look for a token server that is stale. The old secret expires after rotation.expireWhenUnused.max at the latest.",
	},
	ReasonUnknownContainer: {
		Severity: SeverityWarning,
		Cause:    "The Deployment of the token servers has a container that the operator has not added. It can read the signing keys and the verifiers of all client secrets.",
		Action:   "If your cluster adds the container, let it change Pods instead of the Deployment. Otherwise, an attacker has the permissions of the operator: follow \"Recover\" in docs/security.md. Deleting the Deployment removes the container, because the operator creates the Deployment again.",
	},
	ReasonRecordsNotLoaded: {
		Severity: SeverityWarning,
		Cause:    "A token server cannot read some records, because they are damaged or were written by a newer operator, or does not know a restriction in them. It serves the last version of a record that it could read, and rejects the clients of one with an unknown restriction.",
		Action:   "If the versions of the token servers and the operator differ, finish the upgrade. Otherwise, look for Realms with KeysUnreadable and ApiClients with RecordUnreadable.",
	},
	ReasonCertificatesIssued: {
		Severity: SeverityNone,
		Cause:    "The managed CA signs the certificate of the token servers.",
	},
	ReasonCAUnusable: {
		Severity: SeverityWarning,
		Cause:    "The managed CA cannot sign the certificate of the token servers. They use the last certificate until it expires.",
		Action:   "Restore or correct the Secret realmkeeper-ca in the system namespace. If you delete it, the operator generates a new CA, and clients must load ca.crt again.",
	},
	ReasonKMSConnected: {
		Severity: SeverityNone,
		Cause:    "The KMS plugin of the operator responds.",
	},
	ReasonMemoryLimitTooLow: {
		Severity: SeverityWarning,
		Cause:    "The memory limit of the operator is too low for the number of ApiClients. When the operator needs more, it is killed, and changes have no effect.",
		Action:   "Raise operator.resources.limits.memory; see Sizing in the documentation for the size.",
	},
}

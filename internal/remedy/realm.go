package remedy

import (
	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/untrusted"
)

// realms explains the reasons that only Realms have.
func realms(r *v1alpha1.Realm) map[v1alpha1.ConditionReason]entry {
	return map[v1alpha1.ConditionReason]entry{
		v1alpha1.ReasonLifetimeExceedsInstanceMaximum: {
			cause:    "spec.tokenLifetime exceeds the maximum of this instance.",
			action:   "Set a shorter lifetime, or remove the field to use the default of the instance.",
			commands: func(o object) []string { return []string{o.unset("tokenLifetime")} },
		},
		v1alpha1.ReasonTrustedIssuerNotSupported: {
			cause:    "An entry of spec.trustedIssuers cannot be used, so its tokens are rejected. The other issuers work.",
			action:   "Correct its keys, its certificates, or its URL.",
			commands: object.edit,
		},
		v1alpha1.ReasonIssuersResolved: {
			cause:    "The token servers have the public keys of every trusted issuer.",
			commands: object.describe,
		},
		v1alpha1.ReasonIssuerNotResolved: {
			cause:    "The operator cannot get the public keys of a trusted issuer. Token servers keep the last keys unless the issuer revoked them.",
			action:   "Check that the operator can reach the issuer, and that its certificate is trusted. The operator keeps trying.",
			commands: object.describe,
		},
		v1alpha1.ReasonKeysEncrypted: {
			cause:    "The KMS plugin has encrypted the private parts of all signing keys in the record.",
			commands: object.describe,
		},
		v1alpha1.ReasonRotationRequired: {
			cause:    "A signing key is stored in plaintext although a KMS plugin is configured, or encrypted although keyEncryption.kms.decrypt is true.",
			action:   "Rotate the signing key. \"kubectl realmkeeper rotate --all\" does so for all realms.",
			commands: rotate,
		},
		v1alpha1.ReasonKMSUnavailable: {
			cause:    "The KMS plugin failed to encrypt a new signing key, or to decrypt the active key for the token servers that the message names. Keys that token servers already use stay in use, and new keys wait.",
			action:   "Check the containers kms-plugin in the Pods of the operator and of these token servers, and the logs. They keep trying.",
			commands: object.describe,
		},
		v1alpha1.ReasonKMSNotConfigured: {
			cause:    "A signing key is encrypted, but the instance configuration has no KMS plugin. Restarted token servers cannot use the key, and no new key is generated.",
			action:   "Configure the same KMS plugin in keyEncryption.kms again. To disable encryption, set keyEncryption.kms.decrypt first.",
			commands: object.describe,
		},
		v1alpha1.ReasonEncryptionDisabled: {
			cause:    "keyEncryption.kms.decrypt is true, and all signing keys are stored in plaintext.",
			action:   "When this is the case for all Realms, remove keyEncryption.kms from the instance configuration. To encrypt keys again, set decrypt to false.",
			commands: object.describe,
		},
		v1alpha1.ReasonKeysUnreadable: {
			cause:  "The record of the realm, a Secret with its signing keys in the records namespace, is damaged. Token servers keep using the last version that they could read.",
			action: "Run \"kubectl realmkeeper restore\" with a backup, which replaces the record. Without a backup, delete the Secret and rotate the signing key: the realm gets new keys, and its tokens fail verification.",
			commands: func(object) []string {
				return []string{recordsOf("realm") + " --field-selector " + untrusted.Quote("metadata.name=realm-"+string(r.UID))}
			},
		},
		v1alpha1.ReasonKeysMissing: {
			cause:    "The record of the realm, a Secret with its signing keys in the records namespace, does not exist any more. No tokens are issued, and existing tokens are rejected.",
			action:   "Run \"kubectl realmkeeper restore\" with a backup. Without a backup, rotate the signing key: the realm gets new keys, and its tokens stay invalid.",
			commands: rotate,
		},
	}
}

// rotate requests a new signing key for a Realm that may not be Ready.
func rotate(r object) []string {
	return []string{"kubectl realmkeeper rotate " + untrusted.Quote("realm/"+r.name) + " --wait=false"}
}

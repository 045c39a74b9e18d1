package remedy

import (
	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/untrusted"
)

// newHash returns commands that add the hash of a new secret to the spec.
func newHash(o object) []string {
	return []string{"kubectl realmkeeper hash", o.kubectl("edit")}
}

// clients explains the reasons that only ApiClients have.
var clients = map[v1alpha1.ConditionReason]entry{
	v1alpha1.ReasonRealmNotFound: {
		cause:    "The Realm in spec.realmRef does not exist.",
		action:   "Create the Realm. If its name is misspelled, delete this ApiClient and create it with another spec.realmRef.",
		commands: func(object) []string { return []string{"kubectl get realms"} },
	},
	v1alpha1.ReasonNamespaceNotAllowed: {
		cause:    "No grant of the realm includes the namespace of the client.",
		action:   "Ask an administrator of the realm to add a grant such as this one.",
		commands: func(o object) []string { return o.addGrant(false) },
	},
	v1alpha1.ReasonNotGranted: {
		cause:    "No single grant of the realm covers all scopes, audiences, issuers, and the client ID of the client.",
		action:   "Change the client so that one grant covers it, or ask an administrator of the realm to add a grant such as this one.",
		commands: func(o object) []string { return o.addGrant(true) },
	},
	v1alpha1.ReasonScopeNotInRealm: {
		cause:    "spec.scopes lists scopes that the realm does not define.",
		action:   "Remove them from the client, or have them added to spec.scopes of the Realm.",
		commands: object.compareWithRealm,
	},
	v1alpha1.ReasonAudienceNotInRealm: {
		cause:    "spec.audiences or spec.introspection.audiences lists audiences that the realm does not define.",
		action:   "Remove them from the client, or have them added to spec.audiences of the Realm.",
		commands: object.compareWithRealm,
	},
	v1alpha1.ReasonClaimNotInRealm: {
		cause:    "spec.claims sets claims that the realm does not allow, or that it sets itself.",
		action:   "Remove them from the client, or have them added to spec.allowedClaims of the Realm.",
		commands: object.compareWithRealm,
	},
	v1alpha1.ReasonIssuerNotInRealm: {
		cause:    "spec.federatedIdentities names an issuer that the realm does not trust.",
		action:   "Remove the identity from the client, or have its issuer added to spec.trustedIssuers of the Realm.",
		commands: object.compareWithRealm,
	},
	v1alpha1.ReasonLifetimeExceedsRealm: {
		cause:    "spec.tokenLifetime exceeds the token lifetime of the realm.",
		action:   "Set a shorter lifetime, or remove the field to use that of the realm.",
		commands: func(o object) []string { return []string{o.unset("tokenLifetime")} },
	},
	v1alpha1.ReasonClientIDConflict: {
		cause:  "Another ApiClient of the realm holds the client ID.",
		action: "Delete one of the two, or create this client with another client ID, or list the other one in spec.releasedClients of the Realm.",
		commands: func(o object) []string {
			return []string{"kubectl get apiclients -A --field-selector " + untrusted.Quote("spec.realmRef.name="+o.realm)}
		},
	},
	v1alpha1.ReasonClientIDReleased: {
		cause:  "spec.releasedClients of the Realm lists this client, so it cannot hold its client ID.",
		action: "Remove it from the list, or delete this client.",
		commands: func(o object) []string {
			return []string{o.explainRealm(), o.editRealm()}
		},
	},
	v1alpha1.ReasonCredentialsSecretsDisabled: {
		cause:    "This installation does not store client secrets in Secrets, or the namespace of the client contains the Secrets of Realmkeeper itself.",
		action:   "Replace spec.secret with spec.secret.hashed, spec.publicKeys, spec.serviceAccounts, or spec.federatedIdentities. If the message names the namespace, you can also create the client in another one.",
		commands: newHash,
	},
	v1alpha1.ReasonSecretConflict: {
		cause:    "A Secret with the name of the credentials Secret exists, and this client does not own it.",
		action:   "Delete that Secret if nothing uses it. Otherwise create this client with another spec.secret.generated.secretName.",
		commands: func(o object) []string { return []string{o.inNamespace("describe", "secret", o.secretName())} },
	},
	v1alpha1.ReasonMetadataNotAllowed: {
		cause:    "A label or annotation in spec.secret.generated.template has a prefix that this instance does not allow, or a label without a prefix is not one of the allowed labels.",
		action:   "Remove it, or use the prefix app.kubernetes.io. To use another prefix, ask an administrator to add it to credentialsSecrets.allowedMetadataPrefixes.",
		commands: object.edit,
	},
	v1alpha1.ReasonRealmSuspended: {
		cause:  "spec.suspend of the realm is true, so its clients get no tokens. Nothing was deleted.",
		action: "Resume the realm when its clients may get tokens again.",
		commands: func(o object) []string {
			return []string{command("kubectl", "realmkeeper", "resume", "realm/"+o.realm)}
		},
	},
	v1alpha1.ReasonRealmNotReady: {
		cause:    "The realm is not Accepted or has failed.",
		action:   "Fix the realm. The client is then reconciled automatically.",
		commands: object.status,
	},
	v1alpha1.ReasonExpired: {
		cause:  "spec.expiresAt has passed, or that of every secret in spec.secret.hashed.",
		action: "Set a later expiration or remove it. If all secrets expired, add another one.",
		commands: func(o object) []string {
			if o.client.Spec.ExpiresAt != nil {
				return []string{o.unset("expiresAt")}
			}
			return newHash(o)
		},
	},
	v1alpha1.ReasonRecordUnreadable: {
		cause:    "The record of the client, a Secret in the records namespace, is damaged. Token servers keep using the last version that they could read.",
		action:   "Ask an administrator to run \"kubectl realmkeeper restore\" with a backup, which replaces the record. Without a backup, delete the Secret with the record: the operator writes a new one for the client secret that workloads have. Replaced secrets and the identity of an earlier restore are lost.",
		commands: func(o object) []string { return append(o.describe(), recordsOf("client")) },
	},
	v1alpha1.ReasonSecretNotFound: {
		cause:    "The Secret that provides the client secret does not exist, or does not have the key.",
		action:   "Create the Secret with the client secret and the label. These commands use a random value.",
		commands: func(o object) []string { return []string{o.replace(), o.label()} },
	},
	v1alpha1.ReasonSecretNotLabelled: {
		cause:    "The Secret that provides the client secret lacks the label that allows the operator to read it.",
		action:   "Add the label. The operator rechecks every minute.",
		commands: func(o object) []string { return []string{o.label()} },
	},
	v1alpha1.ReasonSecretTooShort: {
		cause:    "The provided client secret has fewer than 16 characters, so it can be guessed.",
		action:   "Replace it. This command stores a random value.",
		commands: func(o object) []string { return []string{o.replace()} },
	},
	v1alpha1.ReasonSecretNotUsable: {
		cause:    "Clients cannot send the provided client secret: it is too long, is not UTF-8, or has a control character such as a line break.",
		action:   "Replace it. This command stores a random value.",
		commands: func(o object) []string { return []string{o.replace()} },
	},
	v1alpha1.ReasonHashNotSupported: {
		cause:    "A hash in spec.secret.hashed has a format or parameters that are not supported.",
		action:   "Replace it with the hash of a new secret.",
		commands: newHash,
	},
	v1alpha1.ReasonImportedHash: {
		cause:    "A secret has an imported hash that is cheaper to guess than Argon2id. The client works.",
		action:   "Add the hash of a new secret, let the workloads use it, and remove the imported one.",
		commands: newHash,
	},
	v1alpha1.ReasonPublicKeyNotSupported: {
		cause:    "A key in spec.publicKeys is private, invalid, or of a type or size that is not supported.",
		action:   "Correct the key. Treat a private key as compromised and replace the pair.",
		commands: object.edit,
	},
	v1alpha1.ReasonServiceAccountNotFound: {
		cause:    "None of the service accounts of the client exists, and it has no other way to authenticate.",
		action:   "Create one of them.",
		commands: object.createAccount,
	},
	v1alpha1.ReasonFederatedIdentityNotSupported: {
		cause:    "An identity with the issuer \"kubernetes\" is not a service account in the namespace of the client, or is \"default\".",
		action:   "Use a service account of this namespace other than \"default\".",
		commands: func(o object) []string { return []string{o.inNamespace("get", "serviceaccounts"), o.kubectl("edit")} },
	},
	v1alpha1.ReasonOldSecretUsed: {
		cause:  "A workload still uses the old secret after a rotation, so it stays valid, at most for rotation.endWhenUnused.max.",
		action: "Restart the workloads that started before the rotation. The audit events of the token servers contain the ID of the secret and the address of the workload.",
		commands: func(o object) []string {
			return []string{o.inNamespace("get", "pods") + " --sort-by=.metadata.creationTimestamp"}
		},
	},
	v1alpha1.ReasonUsageIncomplete: {
		cause:    "A token server was killed or does not report uses, so it is not known whether the old secret is still used.",
		action:   "Wait, or look for a token server that is stale. The old secret ends after rotation.endWhenUnused.max at the latest.",
		commands: object.status,
	},
}

// recordsOf returns a command that lists the records of a kind without their content.
func recordsOf(kind string) string {
	return "kubectl get secrets -A -l " + v1alpha1.RecordLabel + "=" + kind
}

package remedy

import (
	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// newHash returns commands that generate the hash of a new secret, and add it to the spec or to the Secrets
// that contain the hashes.
func newHash(o object) []string {
	if o.hashSecrets() != nil {
		return o.createSecret()
	}
	return []string{"kubectl realmkeeper hash", o.kubectl("edit")}
}

// clients contains the commands for the reasons that only ApiClients have.
var clients = map[v1beta1.ConditionReason]commands{
	v1beta1.ReasonRealmNotFound:        func(object) []string { return []string{"kubectl get realms"} },
	v1beta1.ReasonNamespaceNotAllowed:  func(o object) []string { return o.addGrant(false) },
	v1beta1.ReasonNotGranted:           func(o object) []string { return o.addGrant(true) },
	v1beta1.ReasonScopeNotInRealm:      object.compareWithRealm,
	v1beta1.ReasonAudienceNotInRealm:   object.compareWithRealm,
	v1beta1.ReasonClaimNotInRealm:      object.compareWithRealm,
	v1beta1.ReasonTokenTooLarge:        object.compareWithRealm,
	v1beta1.ReasonIssuerNotInRealm:     object.compareWithRealm,
	v1beta1.ReasonLifetimeExceedsRealm: func(o object) []string { return []string{o.unset("tokenLifetime")} },
	v1beta1.ReasonClientIDConflict: func(o object) []string {
		return []string{"kubectl get apiclients -A --field-selector " + untrusted.Quote("spec.realmRef.name="+o.realm)}
	},
	v1beta1.ReasonClientIDReleased:           object.describe,
	v1beta1.ReasonCredentialsSecretsDisabled: newHash,
	v1beta1.ReasonSecretConflict:             func(o object) []string { return []string{o.inNamespace("describe", "secret", o.secretName())} },
	v1beta1.ReasonRealmSuspended: func(o object) []string {
		return []string{command("kubectl", "realmkeeper", "resume", "realm/"+o.realm)}
	},
	v1beta1.ReasonRealmNotReady: object.status,
	v1beta1.ReasonExpired: func(o object) []string {
		if o.client.Spec.ExpirationTime != nil {
			return []string{o.unset("expirationTime")}
		}
		return newHash(o)
	},
	v1beta1.ReasonRecordUnreadable:       func(o object) []string { return append(o.describe(), recordsOf("client")) },
	v1beta1.ReasonStatusIndexUnavailable: object.describe,
	v1beta1.ReasonSecretNotFound:         object.createSecret,
	v1beta1.ReasonSecretNotLabeled:       func(o object) []string { return []string{o.label()} },
	v1beta1.ReasonSecretTooShort:         func(o object) []string { return []string{o.replace()} },
	v1beta1.ReasonSecretNotUsable:        func(o object) []string { return []string{o.replace()} },
	v1beta1.ReasonHashNotSupported:       newHash,
	v1beta1.ReasonImportedHash:           newHash,
	v1beta1.ReasonPublicKeyNotSupported:  object.edit,
	v1beta1.ReasonServiceAccountNotFound: object.createAccount,
	v1beta1.ReasonOldSecretUsed: func(o object) []string {
		return []string{o.inNamespace("get", "pods") + " --sort-by=.metadata.creationTimestamp"}
	},
	v1beta1.ReasonUsageIncomplete: object.status,
}

// recordsOf returns a command that lists the records of a kind without their content.
func recordsOf(kind string) string {
	return "kubectl get secrets -A -l " + v1beta1.RecordLabel + "=" + kind
}

package remedy

import "github.com/realmkeeper/realmkeeper/api/v1alpha1"

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
		v1alpha1.ReasonKeysUnreadable: {
			cause:  "The record of the realm, a Secret with its signing keys in the records namespace, is damaged. Token servers keep using the last version that they could read.",
			action: "Restore the Secret from a backup. If there is none, delete it: the realm gets new keys, and its tokens fail verification.",
			commands: func(object) []string {
				return []string{recordsOf("realm") + " --field-selector metadata.name=realm-" + string(r.UID)}
			},
		},
	}
}

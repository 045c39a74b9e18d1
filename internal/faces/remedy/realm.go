package remedy

import (
	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// realms contains the commands for the reasons that only Realms have.
func realms(r *v1beta1.Realm) map[v1beta1.ConditionReason]commands {
	return map[v1beta1.ConditionReason]commands{
		v1beta1.ReasonLifetimeExceedsInstanceMaximum: func(o object) []string { return []string{o.unset("tokenLifetime")} },
		v1beta1.ReasonTrustedIssuerNotSupported:      object.edit,
		v1beta1.ReasonIssuersResolved:                object.describe,
		v1beta1.ReasonIssuerNotResolved:              object.describe,
		v1beta1.ReasonExchangesResolved:              object.describe,
		v1beta1.ReasonExchangeNotResolved:            object.edit,
		v1beta1.ReasonKeysEncrypted:                  object.describe,
		v1beta1.ReasonRotationRequired:               rotate,
		v1beta1.ReasonKMSUnavailable:                 object.describe,
		v1beta1.ReasonKMSNotConfigured:               object.describe,
		v1beta1.ReasonEncryptionDisabled:             object.describe,
		v1beta1.ReasonKeysUnreadable: func(object) []string {
			return []string{recordsOf("realm") + " --field-selector " + untrusted.Quote("metadata.name=realm-"+string(r.UID))}
		},
		v1beta1.ReasonKeysMissing: rotate,
	}
}

// rotate requests a new signing key for a Realm that may not be Ready.
func rotate(r object) []string {
	return []string{"kubectl realmkeeper rotate " + untrusted.Quote("realm/"+r.name) + " --wait=false"}
}

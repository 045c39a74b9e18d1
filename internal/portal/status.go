package portal

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// State summarizes the conditions of a client or realm.
type State struct {
	Name string
	// Kind is good, busy, off or bad. It selects the style of the badge.
	Kind string
	// Message explains the state. It is empty if the object is ready.
	Message string
}

// State names. Lists can be filtered by state.
const (
	StateReady       = "Ready"
	StateProgressing = "Progressing"
	StateSuspended   = "Suspended"
	StateExpired     = "Expired"
	StateNotReady    = "Not ready"
)

var allStates = []string{StateReady, StateProgressing, StateSuspended, StateExpired, StateNotReady}

// stateKinds are the kinds of badges by state.
var stateKinds = map[string]string{StateReady: "good", StateProgressing: "busy", StateSuspended: "off", StateExpired: "off", StateNotReady: "bad"}

// stateOf summarizes an object's conditions.
func stateOf(conditions []metav1.Condition, generation int64) State {
	ready := meta.FindStatusCondition(conditions, string(v1alpha1.ConditionReady))
	if ready == nil || ready.ObservedGeneration != generation {
		return State{StateProgressing, "busy", "The operator hasn't processed the latest change yet."}
	}
	reason := v1alpha1.ConditionReason(ready.Reason)
	switch {
	case ready.Status == metav1.ConditionTrue:
		return State{Name: StateReady, Kind: "good"}
	case ready.Status == metav1.ConditionUnknown:
		return State{StateProgressing, "busy", ready.Message}
	case reason == v1alpha1.ReasonSuspended, reason == v1alpha1.ReasonRealmSuspended:
		return State{StateSuspended, "off", reasonText[reason]}
	case reason == v1alpha1.ReasonExpired:
		return State{StateExpired, "off", reasonText[reason]}
	}
	return State{StateNotReady, "bad", describe(ready)}
}

var conditionLabels = map[v1alpha1.ConditionType]string{
	v1alpha1.ConditionReady:           "Ready",
	v1alpha1.ConditionAccepted:        "Configuration valid",
	v1alpha1.ConditionProgrammed:      "Loaded by token servers",
	v1alpha1.ConditionReconciling:     "Reconciling",
	v1alpha1.ConditionStalled:         "Action required",
	v1alpha1.ConditionWeakHash:        "Weak secret hash",
	v1alpha1.ConditionIssuersResolved: "Keys of trusted issuers loaded",
	v1alpha1.ConditionKeysEncrypted:   "Signing keys encrypted",
	v1alpha1.ConditionOldSecretInUse:  "Old secret still in use",
	v1alpha1.ConditionRestored:        "Restored from a backup",
}

// reasonText explains condition reasons to users.
var reasonText = map[v1alpha1.ConditionReason]string{
	v1alpha1.ReasonAccepted:                       "The configuration is valid and all referenced objects exist.",
	v1alpha1.ReasonReady:                          "All token servers have loaded the latest configuration.",
	v1alpha1.ReasonProgressing:                    "A change is in progress. No action is needed.",
	v1alpha1.ReasonSuspended:                      "No tokens are issued until the client or realm is resumed.",
	v1alpha1.ReasonNoTokenServer:                  "No token server is running. Contact your administrator.",
	v1alpha1.ReasonLifetimeExceedsInstanceMaximum: "The token lifetime is longer than this instance allows.",
	v1alpha1.ReasonKeysUnreadable:                 "The realm's keys can't be read. Your administrator must restore them.",
	v1alpha1.ReasonKeysMissing:                    "The realm's keys are gone. Your administrator must restore them from a backup or rotate the signing key.",
	v1alpha1.ReasonRealmNotFound:                  "The realm doesn't exist.",
	v1alpha1.ReasonNamespaceNotAllowed:            "The realm has no grant for this namespace.",
	v1alpha1.ReasonScopeNotInRealm:                "The client uses scopes that the realm doesn't define.",
	v1alpha1.ReasonAudienceNotInRealm:             "The client uses audiences that the realm doesn't define.",
	v1alpha1.ReasonLifetimeExceedsRealm:           "The client's token lifetime is longer than the realm allows.",
	v1alpha1.ReasonNotGranted:                     "No single grant of the realm covers the client's scopes, audiences, issuers, and client ID.",
	v1alpha1.ReasonClientIDConflict:               "Another client in the realm holds the client ID.",
	v1alpha1.ReasonClientIDReleased:               "The realm has released the client's ID, so the client can't use it.",
	v1alpha1.ReasonCredentialsSecretsDisabled:     "This installation doesn't store client secrets in Secrets, at least not in this namespace. Use a hashed secret, a public key, a service account, or a federated identity.",
	v1alpha1.ReasonSecretConflict:                 "The client needs a Secret whose name is already in use.",
	v1alpha1.ReasonRealmSuspended:                 "The realm is suspended. No tokens are issued until it is resumed.",
	v1alpha1.ReasonRealmNotReady:                  "The realm isn't issuing tokens.",
	v1alpha1.ReasonExpired:                        "The client or all of its secrets have expired. Set a later expiration or add a secret.",
	v1alpha1.ReasonRecordUnreadable:               "The client's data for the token servers can't be read. Your administrator must restore it.",
	v1alpha1.ReasonSecretNotFound:                 "The Secret that provides the client secret doesn't exist or lacks the referenced key.",
	v1alpha1.ReasonSecretNotLabelled:              "The Secret that provides the client secret lacks the label that allows the operator to read it.",
	v1alpha1.ReasonSecretTooShort:                 "The provided secret is too short.",
	v1alpha1.ReasonSecretNotUsable:                "The provided secret is too long or contains unsupported characters.",
	v1alpha1.ReasonHashNotSupported:               "The format of a secret hash isn't supported.",
	v1alpha1.ReasonImportedHash:                   "A secret has an imported hash that is cheaper to guess than Argon2id.",
	v1alpha1.ReasonMetadataNotAllowed:             "A label or annotation of the credentials Secret isn't allowed.",
	v1alpha1.ReasonServiceAccountNotFound:         "None of the client's service accounts exist.",
	v1alpha1.ReasonOldSecretUsed:                  "A workload still uses the old secret. It expires when it has been unused for long enough.",
	v1alpha1.ReasonUsageIncomplete:                "Token servers haven't reported all uses, so the old secret counts as used.",
	v1alpha1.ReasonPublicKeyNotSupported:          "The format of a public key isn't supported.",
	v1alpha1.ReasonIssuerNotInRealm:               "The client uses trusted issuers that the realm doesn't define.",
	v1alpha1.ReasonFederatedIdentityNotSupported:  "A federated identity isn't supported.",
	v1alpha1.ReasonClaimNotInRealm:                "The client sets claims that the realm doesn't allow.",
	v1alpha1.ReasonClaimsTooLarge:                 "The claims of the realm and the client are too large for a token.",
	v1alpha1.ReasonRestoredFromBackup:             "The client still accepts secrets of a backup from which it was restored.",
	v1alpha1.ReasonTrustedIssuerNotSupported:      "A trusted issuer can't be used.",
	v1alpha1.ReasonIssuersResolved:                "The public keys of all trusted issuers are up to date.",
	v1alpha1.ReasonKeysEncrypted:                  "All signing keys are encrypted with the KMS plugin.",
	v1alpha1.ReasonRotationRequired:               "Signing keys are stored in another form than the instance requires. Rotate the signing key.",
	v1alpha1.ReasonKMSUnavailable:                 "The KMS plugin can't be used. Signing keys that are in use aren't affected, and new keys wait.",
	v1alpha1.ReasonKMSNotConfigured:               "Signing keys are encrypted, but no KMS plugin is configured.",
	v1alpha1.ReasonEncryptionDisabled:             "Signing keys are stored in plaintext because encryption is being disabled.",
	v1alpha1.ReasonIssuerNotResolved:              "The public keys of a trusted issuer can't be refreshed. The last keys stay in use unless the issuer revoked them.",
}

// describe returns the text to show for a condition. It prefers the condition's message, which
// names the objects involved, unless the condition is true and not a warning. A newer operator may
// use reasons that have no entry in reasonText.
func describe(c *metav1.Condition) string {
	text, ok := reasonText[v1alpha1.ConditionReason(c.Reason)]
	specific := c.Status != metav1.ConditionTrue || isWarning(v1alpha1.ConditionType(c.Type)) ||
		c.Type == string(v1alpha1.ConditionAccepted) || // names the grant that allows a client
		c.Type == string(v1alpha1.ConditionRestored) // names the secrets of the backup
	if !ok || specific && c.Message != "" {
		return c.Message
	}
	return text
}

// isWarning reports whether a condition is a warning when it is True. The message of a warning names
// objects.
func isWarning(c v1alpha1.ConditionType) bool {
	return c == v1alpha1.ConditionWeakHash || c == v1alpha1.ConditionOldSecretInUse
}

// formatLifetime formats a duration without zero units, such as 1h30m. It returns an empty string
// for nil.
func formatLifetime(d *v1alpha1.Duration) string {
	if d == nil {
		return ""
	}
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

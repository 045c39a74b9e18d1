package v1alpha1

// EventController is the reportingController of every Event that the operator records.
const EventController = "auth.realmkeeper.dev/operator"

// EventReason is the reason of an Event about a Realm or ApiClient. In addition to these constants,
// Events use the new reason of the Ready condition, a ConditionReason.
type EventReason string

const (
	// EventSigningKeyRotated records that another signing key of a Realm has become Active. It is
	// not recorded for the first key of a Realm.
	EventSigningKeyRotated EventReason = "SigningKeyRotated"

	// EventSecretRotated records that another secret of an ApiClient, generated or provided, has
	// become active. It is not recorded for the first secret, or for hashes in the spec.
	EventSecretRotated EventReason = "SecretRotated"

	// EventOldSecretInUse records that the old secret of an ApiClient was used after the new one had
	// been delivered. It is recorded at most once a day while a rotation with endWhenUnused waits.
	EventOldSecretInUse EventReason = "OldSecretInUse"

	// EventIssuerNotResolved records that the operator cannot get the public keys of a trusted
	// issuer of a Realm.
	EventIssuerNotResolved EventReason = "IssuerNotResolved"

	// EventIssuerResolved records that the operator gets the public keys of a trusted issuer again.
	EventIssuerResolved EventReason = "IssuerResolved"
)

// EventAction is the action that the operator took when it recorded an Event.
type EventAction string

const (
	// EventActionReconcile is the action of Events that record a new reason of the Ready condition.
	EventActionReconcile EventAction = "Reconcile"

	// EventActionRotate is the action of EventSigningKeyRotated, EventSecretRotated, and
	// EventOldSecretInUse.
	EventActionRotate EventAction = "Rotate"

	// EventActionResolve is the action of EventIssuerNotResolved and EventIssuerResolved.
	EventActionResolve EventAction = "Resolve"
)

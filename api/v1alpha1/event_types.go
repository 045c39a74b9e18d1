package v1alpha1

// EventController is the reportingController of every Event that the operator records.
const EventController = "auth.realmkeeper.dev/operator"

// EventReason is the reason of an Event that regards a Realm or ApiClient. Beside those
// here it is a ConditionReason: that which the Ready condition has from then on.
type EventReason string

const (
	// EventSigningKeyRotated tells that another signing key of a Realm is Active than
	// before. The first key of a Realm has no such Event.
	EventSigningKeyRotated EventReason = "SigningKeyRotated"

	// EventSecretRotated tells that another secret of an ApiClient is in force than before,
	// generated or provided. The first one has no such Event, nor has a hash in the spec.
	EventSecretRotated EventReason = "SecretRotated"
)

// EventAction is what the operator did when an Event came about.
type EventAction string

const (
	// EventActionReconcile is the action where Ready has another reason than before.
	EventActionReconcile EventAction = "Reconcile"

	// EventActionRotate is the action with EventSigningKeyRotated and EventSecretRotated.
	EventActionRotate EventAction = "Rotate"
)

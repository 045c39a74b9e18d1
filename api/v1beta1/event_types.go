package v1beta1

// EventController is the reportingController of every Event that the operator records.
const EventController = "auth.realmkeeper.dev/operator"

// EventReason is the reason of an Event about a Realm or ApiClient, or about the Secret with the
// managed certificate authority. In addition to these constants, Events use the new reason of the
// Ready or Restored condition, a ConditionReason.
type EventReason string

const (
	// EventSigningKeyRotated records that another signing key of a Realm has become Active. It is
	// not recorded for the first key of a Realm.
	EventSigningKeyRotated EventReason = "SigningKeyRotated"

	// EventSecretRotated records that another secret of an ApiClient, generated or provided, has
	// become active. It is not recorded for the first secret, or for hashes in the spec.
	EventSecretRotated EventReason = "SecretRotated"

	// EventOldSecretInUse records that the old secret of an ApiClient was used after the new one had
	// been delivered. It is recorded at most once a day while a rotation with expireWhenUnused waits.
	EventOldSecretInUse EventReason = "OldSecretInUse"

	// EventIssuerNotResolved records that the operator cannot get the public keys of a trusted
	// issuer of a Realm.
	EventIssuerNotResolved EventReason = "IssuerNotResolved"

	// EventIssuerResolved records that the operator gets the public keys of a trusted issuer again.
	EventIssuerResolved EventReason = "IssuerResolved"

	// EventCAPublished records that clients start to trust the next certificate authority. It is
	// recorded for the Secret with the managed certificate authority.
	EventCAPublished EventReason = "CAPublished"

	// EventCAReplaced records that another certificate authority signs the serving certificate. It is
	// recorded for the Secret with the managed certificate authority. It is a warning if clients may
	// not trust that one yet.
	EventCAReplaced EventReason = "CAReplaced"

	// EventTrustBundleFailed records that the operator cannot write the ClusterTrustBundle. It is
	// recorded for the Secret with the managed certificate authority.
	EventTrustBundleFailed EventReason = "TrustBundleFailed"
)

// EventAction is the action that the operator took when it recorded an Event.
type EventAction string

const (
	// EventActionReconcile is the action of Events that record a new reason of the Ready condition.
	EventActionReconcile EventAction = "Reconcile"

	// EventActionRotate is the action of EventSigningKeyRotated, EventSecretRotated,
	// EventOldSecretInUse, EventCAPublished, EventCAReplaced, and EventTrustBundleFailed.
	EventActionRotate EventAction = "Rotate"

	// EventActionResolve is the action of EventIssuerNotResolved and EventIssuerResolved.
	EventActionResolve EventAction = "Resolve"

	// EventActionRestore is the action of Events that record a new reason of the Restored condition.
	EventActionRestore EventAction = "Restore"
)

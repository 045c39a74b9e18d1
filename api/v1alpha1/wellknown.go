package v1alpha1

// FieldOwner is the field manager under which the operator applies everything that
// it writes, so that server-side apply tells its fields from those of others.
const FieldOwner = "realmkeeper"

// ReservedPrefix is the prefix of the label and annotation keys that only the
// operator sets. A Secret template can't use it.
const ReservedPrefix = "auth.realmkeeper.dev/"

const (
	// RecordLabel marks a record: a Secret of the system namespace that tells the token
	// servers about one Realm or ApiClient. Its value is RecordRealm or RecordClient.
	RecordLabel = "auth.realmkeeper.dev/record"

	// RecordRealm is the value of RecordLabel on the record of a Realm.
	RecordRealm = "realm"

	// RecordClient is the value of RecordLabel on the record of an ApiClient.
	RecordClient = "client"
)

// OwnerAnnotation names the object that a record belongs to: "name" for a Realm,
// "namespace/name" for an ApiClient. It says whom to look at when the record changes; the
// owner's UID, which is in the record's name, says whose it is.
const OwnerAnnotation = "auth.realmkeeper.dev/owner"

const (
	// ClientSecretLabel marks a Secret that holds the credentials of an ApiClient. The
	// operator takes no data from a Secret outside the system namespace that lacks it.
	ClientSecretLabel = "auth.realmkeeper.dev/client-secret"

	// ClientSecretGenerated is the value of ClientSecretLabel on a Secret that the
	// operator made.
	ClientSecretGenerated = "generated"

	// ClientSecretProvided is the value of ClientSecretLabel on a Secret that a person
	// provides: it allows the operator to read it.
	ClientSecretProvided = "true"
)

// ManagedByLabel marks, with the value ManagedBy, what the operator keeps in the system
// namespace: records, certificates and the objects of the token service.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "realmkeeper"
)

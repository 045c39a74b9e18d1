package v1beta1

// FieldOwner is the field manager that the operator uses for server-side apply.
const FieldOwner = "realmkeeper"

// ReservedPrefix is the prefix of Realmkeeper's label and annotation keys. Secret templates can't use
// it.
const ReservedPrefix = "auth.realmkeeper.dev/"

// AllowDeletionAnnotation on a Realm lets users delete the Realm although it has clients, if its value
// is the name of the Realm.
const AllowDeletionAnnotation = "auth.realmkeeper.dev/allow-deletion"

const (
	// RecordLabel marks a record: a Secret in the records namespace that tells the token servers
	// about one Realm, one ApiClient, one subject that an ApiClient holds, or one index of an ApiClient in
	// the status lists of a realm. Its value is RecordRealm, RecordClient, RecordSubject, or RecordIndex.
	RecordLabel = "auth.realmkeeper.dev/record"

	// RecordRealm is the value of RecordLabel on the record of a Realm.
	RecordRealm = "realm"

	// RecordClient is the value of RecordLabel on the record of an ApiClient.
	RecordClient = "client"

	// RecordSubject is the value of RecordLabel on the record that an ApiClient holds a subject of
	// an issuer.
	RecordSubject = "subject"

	// RecordIndex is the value of RecordLabel on the record that an ApiClient holds an index in the status
	// lists of a realm.
	RecordIndex = "index"

	// RecordBeacon is the value of RecordLabel on the beacon, which is not a record. It tells the readers
	// of the records that changes reach them.
	RecordBeacon = "beacon"
)

// IssuerKubernetes is the name of the built-in issuer of every realm: the cluster, for its service
// accounts.
const IssuerKubernetes = "kubernetes"

// OwnerAnnotation names the owner of a record: "name" for a Realm, "namespace/name" for an
// ApiClient. It tells the operator which object to reconcile when the record changes. The owner
// itself is identified by its UID, which is part of the record's name.
const OwnerAnnotation = "auth.realmkeeper.dev/owner"

// AppliedFieldsAnnotation names the labels, annotations and data that the operator has set in a Secret, as
// JSON. It removes those that it no longer sets, and leaves all others alone.
const AppliedFieldsAnnotation = "auth.realmkeeper.dev/applied-fields"

// ReleaseAnnotation on an ApiClient or a Realm contains a time in RFC 3339 format. The operator releases the
// client IDs and subjects that were acquired up to this time: those of the ApiClient, or those of all
// ApiClients of the Realm that no grant covers. The annotation can stay, because it does not affect what is
// acquired later. "kubectl realmkeeper release" sets it.
const ReleaseAnnotation = "auth.realmkeeper.dev/release"

const (
	// ClientSecretLabel marks a Secret that contains the credentials of an ApiClient. Outside the
	// system and records namespaces, the operator reads no data from Secrets without this label.
	ClientSecretLabel = "auth.realmkeeper.dev/client-secret"

	// ClientSecretGenerated is the value of ClientSecretLabel on a Secret that the operator
	// created.
	ClientSecretGenerated = "generated"

	// ClientSecretProvided is the value of ClientSecretLabel on a provided Secret. It allows the
	// operator to read the Secret.
	ClientSecretProvided = "true"
)

const (
	// CurrentSecretAnnotation contains the serial and a digest of the value that the operator has written to
	// a credentials Secret under the key of the client secret. It distinguishes that value from one that
	// anyone else has written.
	CurrentSecretAnnotation = "auth.realmkeeper.dev/client-secret"

	// NextSecretAnnotation is the same for the value under the key of the next client secret.
	NextSecretAnnotation = "auth.realmkeeper.dev/next-client-secret"
)

// ManagedByLabel marks, with the value ManagedBy, the objects that the operator manages in the
// system and records namespaces: certificates, the objects of the token service, and records.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "realmkeeper"
)

package portal

// Exported for tests.
var (
	ConditionsOf   = conditionsOf
	ClientRemedies = clientRemedies
	RealmRemedies  = realmRemedies
	CauseOf        = causeOf
	StateOf        = stateOf
	ParseCursor    = parseCursor
	KeyTimeline    = keyTimeline
	SecretTimeline = secretTimeline
	ExpiryOf       = expiryOf
	Snippets       = snippets
)

// SecretView is exported for tests.
type SecretView = secretView

// Timeline is exported for tests.
type Timeline = timeline

// Views are exported for tests.
type (
	ConditionView = conditionView
	CommandView   = commandView
)

// MaxScanned is how many clients the portal sorts and counts.
const MaxScanned = maxScanned

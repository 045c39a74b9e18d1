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
	ExpiryOf       = expiryOf
	Snippets       = snippets
)

// Timeline is exported for tests.
type Timeline = timeline

// Views are exported for tests.
type (
	ConditionView = conditionView
	CommandView   = commandView
)

// MaxScanned is how many clients the portal sorts and counts.
const MaxScanned = maxScanned

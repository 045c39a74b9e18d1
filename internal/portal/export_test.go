package portal

// Exported for tests.
var (
	ReasonText      = reasonText
	ConditionLabels = conditionLabels
	StateOf         = stateOf
	ParseCursor     = parseCursor
)

package portal

// Exported for tests.
var (
	ConditionsOf    = conditionsOf
	ReasonText      = reasonText
	ConditionLabels = conditionLabels
	StateOf         = stateOf
	ParseCursor     = parseCursor
	Relative        = relative
	RelativeTime    = relativeTime
	ExactTime       = exactTime
	UseTime         = useTime
)

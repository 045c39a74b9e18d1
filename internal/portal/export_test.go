package portal

// What tests see that people see only through pages.
var (
	ReasonWords    = reasonWords
	ConditionWords = conditionWords
	StateOf        = stateOf
	ParseCursor    = parseCursor
)

package api_test

// The messages of formats that several fields have. The API server adds the path and the value.
const (
	durationRule     = "must be a duration in hours, minutes, and whole seconds, such as 5m or 1h30m"
	dnsSubdomainRule = "must have at most 253 lowercase letters, digits, hyphens, and dots, with a letter or digit at both ends"
	labelKeysRule    = "must have valid label keys (an optional DNS prefix and a slash, then at most 63 letters, digits, dots, underscores, and hyphens, with a letter or digit at both ends), not "
	labelKeyRule     = "must be a valid label key: an optional DNS prefix and a slash, then at most 63 letters, digits, dots, underscores, and hyphens, with a letter or digit at both ends"
	labelValueRule   = "must be a valid label value: at most 63 letters, digits, dots, underscores, and hyphens, with a letter or digit at both ends"

	// tooShort is the rule that an empty string violates.
	tooShort = "should be at least 1 chars long"
)

package tokenagent

// ErrNoResponse is the failure of a request without a response.
var ErrNoResponse = NoResponse("no response")

// NoResponse is such a failure with another text.
func NoResponse(text string) error { return fail(codeConnection, nil, "%s", text) }

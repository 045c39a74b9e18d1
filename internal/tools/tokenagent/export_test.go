package tokenagent

// ErrNoResponse is the failure of a request without a response.
var ErrNoResponse = fail(codeConnection, nil, "no response")

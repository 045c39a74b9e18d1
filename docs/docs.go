// Package docs contains the pages that tests compare with the code. A test that opened them would run again
// in each new checkout, although nothing has changed.
package docs

import _ "embed"

var (
	// Audit is the page about the audit log.
	//
	//go:embed audit.md
	Audit []byte

	// AuditSchema is the JSON schema of its lines.
	//
	//go:embed audit.schema.json
	AuditSchema []byte
)

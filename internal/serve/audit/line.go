package audit

import (
	"encoding/json"
	"slices"

	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// appendLine appends the event as a line of JSON. Characters that control a terminal are escaped, because
// users read the log in a terminal.
func (e *Event) appendLine(b []byte) []byte {
	line := *e
	line.Time, line.Source = e.Time.UTC(), e.Source.WithZone("")
	encoded, err := json.Marshal(line)
	if err != nil {
		panic(err) // Strings, numbers and the current time always encode.
	}
	if slices.ContainsFunc(encoded, func(c byte) bool { return c < 0x20 || c >= 0x7f }) {
		encoded = untrusted.EscapeJSON(encoded)
	}
	return append(append(b, encoded...), '\n')
}

// Package report collects the results of attacks in a table.
package report

import (
	"fmt"
	"strings"
	"sync"
)

// Row is the result of one attack.
type Row struct {
	Server, Attack, Sources string
	Seconds                 int
	// Peak and Limit are bytes of memory.
	Peak, Limit int64
	Restarts    int
	Calls       int
	Success     float64 // from 0 to 1
	P99         string
	// Attacked says what the attackers did, and Shed what the server rejected.
	Attacked, Shed string
}

// Report collects rows. It is safe for concurrent use.
type Report struct {
	mu   sync.Mutex
	rows []Row
}

// Add adds a row.
func (r *Report) Add(row Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row)
}

const header = `| server | attack | sources | seconds | peak memory | killed | honest calls | success | p99 | attacked with | shed |
|---|---|---|---|---|---|---|---|---|---|---|
`

// String returns a Markdown table, or an empty string if there are no rows.
func (r *Report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(header)
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d of %d MiB | %d | %d | %.2f %% | %s | %s | %s |\n",
			row.Server, row.Attack, row.Sources, row.Seconds, row.Peak>>20, row.Limit>>20, row.Restarts,
			row.Calls, 100*row.Success, row.P99, row.Attacked, row.Shed)
	}
	return b.String()
}

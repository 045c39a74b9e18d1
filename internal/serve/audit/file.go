package audit

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// closeTimeout bounds the wait for a slow sink when a process exits.
const closeTimeout = 5 * time.Second

// OpenFile opens the audit log at path and appends to it. The path "-" is standard output. An empty
// path disables the log: the returned log is nil. The caller must call closeLog, which writes the
// pending events and waits at most 5 s for them to be written.
func OpenFile(path string, logger *slog.Logger, now func() time.Time) (log *Log, closeLog func(), err error) {
	out := os.Stdout
	switch path {
	case "":
		return nil, func() {}, nil
	case "-":
	default:
		if out, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return nil, nil, err
		}
	}
	log = Open(out, logger, now)
	return log, func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := log.Close(ctx); err != nil {
			logger.Error("Failed to write the last audit events", "error", err)
			return // a write may still be in progress
		}
		if path != "-" {
			out.Close()
		}
	}, nil
}

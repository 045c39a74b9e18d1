package main

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// The debug level must not include more verbose levels: client-go logs request and response bodies
// at some of them.
func TestLogLevel(t *testing.T) {
	for level, wantDebug := range map[config.LogLevel]bool{config.LogInfo: false, config.LogDebug: true} {
		logger := newLogger(level)
		if !logger.Enabled() || logger.V(1).Enabled() != wantDebug || logger.V(2).Enabled() {
			t.Errorf("level %s enables verbosity 0: %t, 1: %t, 2: %t, want true, %t, false", level, logger.Enabled(), logger.V(1).Enabled(), logger.V(2).Enabled(), wantDebug)
		}
	}
}

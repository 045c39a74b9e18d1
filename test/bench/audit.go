package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

var errAuditLost = errors.New("audit lines are lost")

// audits measures what the audit costs: a line in a file for each token.
func audits() experiment {
	return experiment{
		rows: []row{{
			name: "audit/tokens with ES256", unit: perSecond, judge: ratio, target: atLeast(0.95),
			limit: "the same without an audit; a line that is lost is an error",
		}},
		prepare: prepareAudit,
	}
}

func prepareAudit(part time.Duration) (round func(int) ([]sample, error), teardown func(), err error) {
	file, err := os.CreateTemp("", "audit-*.log")
	if err != nil {
		return nil, nil, fmt.Errorf("making a file for audit lines: %w", err)
	}
	log := audit.Open(file, slog.New(slog.DiscardHandler), time.Now)
	closeFile := func() {
		_ = log.Close(context.Background())
		file.Close()
		_ = os.Remove(file.Name())
	}
	var servers []*loadedServer
	teardown = func() {
		for _, s := range servers {
			s.close()
		}
		closeFile()
	}
	for _, log := range []*audit.Log{nil, log} {
		people, err := newPopulation(signingkey.ES256, func(o *tokenserver.Options) { o.Audit = log })
		if err == nil {
			var server *loadedServer
			server, err = serve("product", people.server, people.requests)
			servers = append(servers, server)
		}
		if err != nil {
			closeFile()
			return nil, nil, err
		}
	}
	round = func(turn int) ([]sample, error) {
		var with, without float64
		err := inTurn(turn,
			func() (err error) { without, err = servers[0].rate(part); return err },
			func() (err error) { with, err = servers[1].rate(part); return err },
		)
		if err == nil && log.Lost() > 0 {
			err = errAuditLost
		}
		return []sample{{measured: with, limit: without}}, err
	}
	return round, teardown, nil
}

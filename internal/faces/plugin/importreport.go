package plugin

import (
	"fmt"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

// importReport is the report of an import in JSON.
type importReport struct {
	Clients     int                 `json:"clients"`
	NotImported []migration.Finding `json:"notImported"`
	Warnings    []migration.Finding `json:"warnings"`
}

func (o *importOptions) writeReport(export *migration.Export) error {
	if o.report == "json" {
		encoded, err := untrusted.MarshalJSON(importReport{
			Clients:     len(export.Clients),
			NotImported: append([]migration.Finding{}, export.NotImported...), Warnings: append([]migration.Finding{}, export.Warnings...),
		})
		if err != nil {
			return err
		}
		_, err = o.streams.ErrOut.Write(encoded)
		return err
	}
	w := terminal.NewWriter(o.streams.ErrOut)
	where := o.outputDir
	if where == "" {
		where = "standard output"
	}
	if len(export.Clients) > 0 {
		w.Line(terminal.Plain, "Wrote %d ApiClients and the Realm %s to %s.", len(export.Clients), o.target.Realm, where)
	} else {
		w.Line(terminal.Plain, "No client can move. Nothing was written.")
	}
	findings(w, "NOT IMPORTED", export.NotImported)
	findings(w, "WARNINGS", export.Warnings)
	return w.Err()
}

// findings writes each message once, with all clients that it is about.
func findings(w *terminal.Writer, heading string, all []migration.Finding) {
	if len(all) == 0 {
		return
	}
	w.Heading(fmt.Sprintf("%s (%d)", heading, len(all)))
	var messages []string
	clients := map[string][]string{}
	for _, f := range all {
		if _, ok := clients[f.Message]; !ok {
			messages = append(messages, f.Message)
		}
		clients[f.Message] = append(clients[f.Message], f.ClientID)
	}
	for _, message := range messages {
		w.Paragraph(2, terminal.Plain, message)
		for _, id := range clients[message] {
			if id != "" {
				w.Line(terminal.Plain, "    %s", id)
			}
		}
	}
}

func checkLifetime(lifetime time.Duration) error {
	if lifetime < 10*time.Second || lifetime > 24*time.Hour || lifetime%time.Second != 0 {
		return fmt.Errorf("%w: --token-lifetime must be between 10s and 24h in whole seconds, got %s", errUsage, lifetime)
	}
	return nil
}

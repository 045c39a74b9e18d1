package migration

import (
	"fmt"

	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// report is the report of an import in JSON.
type report struct {
	Clients     int       `json:"clients"`
	NotImported []Finding `json:"notImported"`
	Warnings    []Finding `json:"warnings"`
}

func (o *Options) writeReport(export *Export) error {
	if o.report == "json" {
		encoded, err := untrusted.MarshalJSON(report{
			Clients:     len(export.Clients),
			NotImported: append([]Finding{}, export.NotImported...), Warnings: append([]Finding{}, export.Warnings...),
		})
		if err != nil {
			return err
		}
		_, err = o.ErrOut.Write(encoded)
		return err
	}
	w := terminal.NewWriter(o.ErrOut)
	where := o.outputDir
	if where == "" {
		where = "standard output"
	}
	if len(export.Clients) > 0 {
		w.Line(terminal.Plain, "Wrote %d ApiClients and the Realm %s to %s.", len(export.Clients), o.Target.Realm, where)
	} else {
		w.Line(terminal.Plain, "No client can move. Nothing was written.")
	}
	writeFindings(w, "NOT IMPORTED", export.NotImported)
	writeFindings(w, "WARNINGS", export.Warnings)
	return w.Err()
}

// writeFindings writes each message once, with all clients that it is about.
func writeFindings(w *terminal.Writer, heading string, all []Finding) {
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

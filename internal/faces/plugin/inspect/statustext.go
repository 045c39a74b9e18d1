package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

// Text implements output.Report.
func (r *Status) Text(w *terminal.Writer) {
	r.problemsText(w)
	w.Heading("INSTANCE")
	fields := [][2]string{{"Kubernetes", cmp.Or(r.Kubernetes, "unknown")}}
	if i := r.Instance; i != nil {
		fields = append(fields, [2]string{"Version", i.Version}, [2]string{"URL", i.ServiceURL},
			[2]string{"CA", authorityText(i, r.now)}, [2]string{"Key encryption", encryptionText(i)})
	}
	w.Fields(append(fields, [2]string{"Operator", describeWorkload(r.Operator)}, [2]string{"Token servers", describeWorkload(r.TokenService)}))
	r.serversText(w)
	if r.detail != nil {
		w.Heading("REALM " + r.Realms[0].Name)
		w.Fields([][2]string{{"State", r.Realms[0].State}, {"Issuer", r.detail.Issuer}, {"Token lifetime", r.detail.TokenLifetime}})
		r.detail.keys(w, r.now)
	} else {
		r.realmsText(w)
	}
	r.clientsText(w)
	for _, note := range r.Notes {
		w.Paragraph(0, terminal.Faint, note)
	}
}

func (r *Status) problemsText(w *terminal.Writer) {
	if len(r.Problems) == 0 {
		w.Line(terminal.Green, "No problems found")
		return
	}
	w.Line(terminal.Bold, "PROBLEMS")
	for i, p := range r.Problems {
		color := terminal.Red
		if p.Warning {
			color = terminal.Yellow
		}
		if i > 0 {
			w.Line(terminal.Plain, "")
		}
		w.Paragraph(2, color, p.title())
		w.Paragraph(4, terminal.Plain, p.Message)
		w.Paragraph(4, terminal.Plain, p.Action)
		w.Commands(6, p.Commands)
	}
}

func describeWorkload(d *workload) string {
	if d == nil {
		return "no Deployment found"
	}
	return d.String()
}

func (r *Status) serversText(w *terminal.Writer) {
	if r.Instance == nil || len(r.Instance.TokenServers) == 0 {
		return
	}
	var rows []terminal.Row
	for _, s := range r.Instance.TokenServers {
		row := terminal.Row{Cells: []string{s.Name, cmp.Or(s.Version, "unknown version"), string(s.State)}}
		if s.HeartbeatTime != nil {
			row.Cells[2] += ", last heartbeat " + terminal.Relative(s.HeartbeatTime.Time, r.now)
		}
		if s.State == v1beta1.TokenServerBehind || s.State == v1beta1.TokenServerStale {
			row.Color = terminal.Red
		}
		rows = append(rows, row)
	}
	w.Table(nil, rows)
}

func (r *Status) realmsText(w *terminal.Writer) {
	w.Heading("REALMS")
	var rows []terminal.Row
	for _, realm := range r.Realms {
		algorithm, next := "", ""
		for _, k := range realm.SigningKeys {
			if k.State == string(v1beta1.SigningKeyActive) {
				algorithm = k.Algorithm
			}
		}
		if realm.NextKeyTransitionTime != nil {
			next = terminal.Relative(realm.NextKeyTransitionTime.Time, r.now)
		}
		rows = append(rows, terminal.Row{Color: stateColor(realm.State), Cells: []string{
			realm.Name, realm.State, strconv.Itoa(realm.Clients), algorithm, strconv.Itoa(len(realm.SigningKeys)), next,
		}})
	}
	if len(rows) == 0 {
		w.Line(terminal.Plain, "  none")
		return
	}
	w.Table([]string{"NAME", "STATE", "CLIENTS", "ALGORITHM", "KEYS", "NEXT KEY CHANGE"}, rows)
}

func (r *Status) clientsText(w *terminal.Writer) {
	w.Heading("CLIENTS")
	// Ready comes first, then the most frequent reasons.
	states := slices.SortedFunc(maps.Keys(r.Clients), func(a, b string) int {
		return cmp.Or(
			order(a != string(v1beta1.ReasonReady))-order(b != string(v1beta1.ReasonReady)), r.Clients[b]-r.Clients[a], strings.Compare(a, b))
	})
	var rows []terminal.Row
	for _, state := range states {
		rows = append(rows, terminal.Row{Color: stateColor(state), Cells: []string{state, strconv.Itoa(r.Clients[state])}})
	}
	if len(rows) == 0 {
		w.Line(terminal.Plain, "  none")
		return
	}
	w.Table(nil, rows)
}

func stateColor(state string) terminal.Color {
	switch reason := v1beta1.ConditionReason(state); {
	case reason == v1beta1.ReasonReady:
		return terminal.Plain
	case !isProblem(reason):
		return terminal.Yellow
	}
	return terminal.Red
}

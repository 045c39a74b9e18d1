package plugin

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

func (r explanation) text(w *terminal.Writer) {
	for i, f := range r.Findings {
		switch {
		case i > 0:
			w.Heading(f.Condition + ": " + f.Reason)
		case r.Ready:
			w.Paragraph(0, f.color(), r.title+" is Ready")
		default:
			w.Paragraph(0, f.color(), r.title+" is not Ready: "+f.Reason)
		}
		f.text(w)
	}
	if r.Client != nil {
		r.Client.text(w, r.now)
	}
	if r.Realm != nil {
		r.Realm.text(w, r.now)
	}
	if len(r.Events) > 0 {
		w.Heading("EVENTS")
		for _, e := range r.Events {
			w.Fields([][2]string{{terminal.Relative(e.Time.Time, r.now), e.Reason + ": " + e.Message}})
		}
	}
	for _, note := range r.notes {
		w.Paragraph(0, terminal.Faint, note)
	}
}

func (r *clientReport) text(w *terminal.Writer, now time.Time) {
	w.Heading("CLIENT")
	w.Fields([][2]string{
		{"Client ID", r.ClientID},
		{"Description", r.Description},
		{"Realm", r.Realm},
		{"Token endpoint", r.TokenEndpoint},
		{"Grant", r.Grant},
		{"Accepted", r.Accepted},
		{"Scopes", orNone(r.Scopes, "none")},
		{"Delegated scopes", strings.Join(r.DelegatedScopes, ", ")},
		{"Audiences", orNone(r.Audiences, "all that the grant allows")},
		{"Introspection", strings.Join(r.IntrospectionAudiences, ", ")},
		{"Sender constraint", r.SenderConstraint},
		{"Token lifetime", r.TokenLifetime},
		{"Tokens valid after", instantOrEmpty(r.TokensValidAfterTime, now)},
		{"Expires", instantOrEmpty(r.ExpirationTime, now)},
		{"Secret", r.SecretName},
		{"Next rotation", instantOrEmpty(r.NextRotationTime, now)},
		{"Managed by", r.ManagedBy},
	})
	if r.Exchanges != nil {
		exchangesText(w, r.Exchanges)
	}
	w.Heading("CREDENTIALS")
	if len(r.Credentials) == 0 {
		w.Line(terminal.Plain, "  none")
		return
	}
	var rows []terminal.Row
	for _, c := range r.Credentials {
		expires := "never"
		if c.ExpirationTime != nil {
			expires = terminal.Relative(c.ExpirationTime.Time, now)
		}
		rows = append(rows, terminal.Row{Cells: []string{string(c.Type), c.Name, lastUse(c.LastUsedTime, now), expires}})
	}
	w.Table([]string{"TYPE", "NAME", "LAST USED", "EXPIRES"}, rows)
}

func lastUse(at *metav1.Time, now time.Time) string {
	return describe.LastUse(at, now, func(at, now time.Time) string {
		if hours := now.Sub(at) / time.Hour; hours < 48 {
			return fmt.Sprintf("%dh ago", hours) // Relative returns minutes for up to three hours
		}
		return terminal.Relative(at, now)
	})
}

func orNone(values []string, none string) string {
	if len(values) == 0 {
		return none
	}
	return strings.Join(values, ", ")
}

func instantOrEmpty(at *metav1.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339) + " (" + terminal.Relative(at.Time, now) + ")"
}

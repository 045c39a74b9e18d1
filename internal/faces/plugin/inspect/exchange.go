package inspect

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

// exchanges returns the rules in which a client takes part; nil if there are none, or if its Realm can't be
// read. If the labels of its namespace can't be read, the rules say that they depend on them.
func exchanges(ctx context.Context, c *cluster.Cluster, t *cluster.Target) *describe.Exchanges {
	if t.Client == nil || t.Parent == nil {
		return nil
	}
	namespace := &corev1.Namespace{}
	if describe.NeedsNamespaceLabels(t.Parent) {
		if err := c.Get(ctx, client.ObjectKey{Name: t.Client.Namespace}, namespace); err != nil {
			namespace.Labels = nil
		}
	}
	return exchangesOf(t, namespace.Labels)
}

func exchangesOf(t *cluster.Target, namespaceLabels map[string]string) *describe.Exchanges {
	found := describe.ExchangesOf(t.Client, t.Parent, namespaceLabels)
	if len(found.Actor)+len(found.Subject) == 0 {
		return nil
	}
	return &found
}

// exchangesText writes what a client can exchange, and who can exchange its tokens.
func exchangesText(w *terminal.Writer, e *describe.Exchanges) {
	for i := range e.Actor {
		r := &e.Actor[i]
		if i == 0 {
			w.Heading("CAN ACT FOR")
		} else {
			w.Line(terminal.Plain, "")
		}
		scopes := output.OrNone(r.Scopes, "none")
		if condition := r.ScopeCondition(); condition != "" && len(r.Scopes) > 0 {
			scopes += " (" + condition + ")"
		}
		fields := [][2]string{{"Subjects", subjectsText(&r.Subjects)}, {"Audiences", output.OrNone(r.Audiences, "none")}, {"Scopes", scopes}}
		fields = append(fields, limitsText(&r.ExchangeLimits)...)
		ruleText(w, r.Rule, r.DependsOn, r.Effect(), fields, r.Missing)
	}
	for i := range e.Subject {
		r := &e.Subject[i]
		if i == 0 {
			w.Heading("OTHERS CAN ACT FOR IT")
		} else {
			w.Line(terminal.Plain, "")
		}
		fields := [][2]string{
			{"Actors", describe.ExchangeClients(&r.Actors)},
			{"Tokens", tokensText(r.Tokens.Audiences, r.Tokens.Scopes)},
			{"Audiences", output.OrNone(r.Audiences, "none")},
			{"Scopes", output.OrNone(r.Scopes, "none")},
		}
		fields = append(fields, limitsText(&r.ExchangeLimits)...)
		if r.Denied {
			fields = append(fields, [2]string{"Denied", "deniedSubjects contains this client"})
		}
		for _, rule := range r.DeniedBy {
			fields = append(fields, [2]string{"Denied", "deniedSubjects of rule " + rule + " contains this client, for the actors and audiences of that rule"})
		}
		ruleText(w, r.Rule, r.DependsOn, r.Effect(), fields, r.Missing)
	}
}

func ruleText(w *terminal.Writer, name, dependsOn, effect string, fields [][2]string, missing []describe.Missing) {
	all := [][2]string{{"Rule", name}, {"Effect", effect}}
	if dependsOn != "" {
		all = append(all, [2]string{"Applies", "if the namespace has these labels, which you cannot read: " + dependsOn})
	}
	all = append(all, fields...)
	for _, m := range missing {
		all = append(all, [2]string{"Missing", m.String()})
	}
	w.Fields(all)
}

func limitsText(l *describe.ExchangeLimits) [][2]string {
	lifetime, constraint := l.TokenLifetime, ""
	if lifetime != "" {
		lifetime = "at most " + lifetime
	}
	if l.DPoP {
		constraint = string(v1beta1.SenderConstraintDPoP)
	}
	fields := [][2]string{{"Maximum depth", strconv.Itoa(l.MaxDepth)}, {"Token lifetime", lifetime}, {"Sender constraint", constraint}}
	if l.DeniedSubjects > 0 {
		fields = append(fields, [2]string{"Denied subjects", strconv.Itoa(l.DeniedSubjects)})
	}
	return fields
}

func subjectsText(s *v1beta1.ExchangeSubjects) string {
	if s.Issuer != nil {
		return describe.ExchangeIssuer(s.Issuer)
	}
	if s.Clients == nil {
		return ""
	}
	return describe.ExchangeClients(s.Clients) + "; " + tokensText(s.Audiences, s.Scopes)
}

// tokensText describes the access tokens that can be exchanged.
func tokensText(audiences, scopes []string) string {
	text := "tokens for " + output.OrNone(audiences, "no audience")
	if len(scopes) > 0 {
		text += " with all of the scopes " + strings.Join(scopes, ", ")
	}
	return text
}

// exchangeText describes a rule of a Realm in one paragraph.
func exchangeText(r *describe.ExchangeRule) string {
	parts := []string{
		"actors: " + describe.ExchangeClients(&r.Actors), "subjects: " + subjectsText(&r.Subjects),
		"audiences: " + strings.Join(r.Audiences, ", "), "scopes: " + strings.Join(r.Scopes, ", "),
	}
	for _, limit := range limitsText(&r.ExchangeLimits) {
		if limit[1] != "" {
			parts = append(parts, strings.ToLower(limit[0])+": "+limit[1])
		}
	}
	return strings.Join(parts, "; ")
}

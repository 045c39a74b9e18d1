package inspect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/unknownfields"
)

const explainUsage = `Explain why an ApiClient or Realm is not Ready and what to do, or what it allows.

For an ApiClient, the output has its grant, scopes, and audiences, the tokens that it can exchange,
the clients that can exchange its tokens, its credentials with their last use and expiration, and
recent Events. The exit code is 1 if the object is not Ready.`

const explainExamples = `  # Explain why a client gets no tokens
  kubectl realmkeeper explain apiclient/billing -n acme-apps

  # Show what a realm allows
  kubectl realmkeeper explain realm/acme

  # Print the reason only
  kubectl realmkeeper explain apiclient/billing -n acme-apps -o json | jq -r '.findings[0].reason'`

// maxEvents is the number of Events that explain shows.
const maxEvents = 5

func newExplainCommand(streams output.Streams) *cobra.Command {
	o := cluster.NewOptions(streams)
	ready := true
	command := o.AboutObject(&cobra.Command{
		Use:     "explain (apiclient/NAME | realm/NAME)",
		Short:   "Explain why a client or realm is not Ready, or what it allows",
		Long:    explainUsage,
		Example: explainExamples,
	}, func(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (output.Report, error) {
		r := newExplanation(ctx, c, t)
		ready = r.Ready
		return r, nil
	})
	explain := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := explain(command, args); err != nil || ready {
			return err
		}
		return output.ErrReported
	}
	o.AddTo(command)
	return command
}

// explanation is the report of explain.
type explanation struct {
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	Ready     bool              `json:"ready"`
	Findings  []cluster.Finding `json:"findings"`
	Client    *clientReport     `json:"apiClient,omitempty"`
	Realm     *realmReport      `json:"realm,omitempty"`
	Events    []eventReport     `json:"events,omitempty"`
	title     string
	now       time.Time
	notes     []string // what could not be read
}

// clientReport describes what an ApiClient is allowed to do, and its credentials.
type clientReport struct {
	ClientID               string                     `json:"clientID,omitempty"`
	Description            string                     `json:"description,omitempty"`
	Realm                  string                     `json:"realm"`
	TokenEndpoint          string                     `json:"tokenEndpoint,omitempty"`
	SecretName             string                     `json:"secretName,omitempty"`
	Grant                  string                     `json:"grant,omitempty"`
	Accepted               string                     `json:"accepted,omitempty"`
	Scopes                 []string                   `json:"scopes,omitempty"`
	DelegatedScopes        []string                   `json:"delegatedScopes,omitempty"`
	Audiences              []string                   `json:"audiences,omitempty"`
	IntrospectionAudiences []string                   `json:"introspectionAudiences,omitempty"`
	SenderConstraint       string                     `json:"senderConstraint,omitempty"`
	TokenLifetime          string                     `json:"tokenLifetime,omitempty"`
	ExpirationTime         *metav1.Time               `json:"expirationTime,omitempty"`
	TokensValidAfterTime   *metav1.Time               `json:"tokensValidAfterTime,omitempty"`
	NextRotationTime       *metav1.Time               `json:"nextRotationTime,omitempty"`
	LastUsedTime           *metav1.Time               `json:"lastUsedTime,omitempty"`
	Credentials            []v1beta1.CredentialStatus `json:"credentials,omitempty"`
	Exchanges              *describe.Exchanges        `json:"exchanges,omitempty"`
	ManagedBy              string                     `json:"managedBy,omitempty"`
}

// eventReport is an Event about an object.
type eventReport struct {
	Time    metav1.Time `json:"time"`
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
}

func newExplanation(ctx context.Context, c *cluster.Cluster, t *cluster.Target) explanation {
	if t.Client != nil {
		parent := &v1beta1.Realm{}
		if err := c.Get(ctx, client.ObjectKey{Name: t.Client.Spec.RealmRef.Name}, parent); err == nil {
			t.Parent = parent
		}
	}
	r := explanation{
		Kind: t.Kind, Namespace: t.Object.GetNamespace(), Name: t.Object.GetName(),
		Ready: t.State() == string(v1beta1.ReasonReady), Findings: t.Findings(),
		title: t.String(), now: c.Clock.Now(),
	}
	if t.Realm != nil {
		r.Realm = newRealmReport(t)
	} else {
		r.Client = newClientReport(t)
		r.Client.Exchanges = exchanges(ctx, c, t)
		if r.Client.TokenLifetime == "" && t.Parent != nil {
			r.Client.TokenLifetime = describe.Duration(t.Parent.Status.TokenLifetime)
		}
	}
	r.notes = append(r.notes, droppedFields(t.Object)...)
	var err error
	if r.Events, err = events(ctx, c, t); err != nil {
		r.notes = append(r.notes, "Events could not be read: "+err.Error())
	}
	return r
}

// effective returns the values in the status, or those in the spec if the status has none.
func effective(status, spec []string) []string {
	if len(status) > 0 {
		return status
	}
	return spec
}

func newClientReport(t *cluster.Target) *clientReport {
	c := t.Client
	r := &clientReport{
		ClientID: c.EffectiveClientID(), Description: c.Spec.Description, Realm: c.Spec.RealmRef.Name,
		TokenEndpoint: c.Status.TokenEndpoint, SecretName: c.Status.SecretName,
		Scopes: c.Spec.Scopes, DelegatedScopes: c.Spec.DelegatedScopes, Audiences: effective(c.Status.Audiences, c.Spec.Audiences), Grant: c.Status.Grant, IntrospectionAudiences: c.Spec.Introspection.Audiences,
		SenderConstraint: string(c.Spec.SenderConstraint), TokenLifetime: describe.Duration(c.Spec.TokenLifetime),
		ExpirationTime: c.Spec.ExpirationTime, TokensValidAfterTime: c.Spec.TokensValidAfterTime, NextRotationTime: c.Status.NextRotationTime,
		LastUsedTime: c.Status.LastUsedTime, ManagedBy: t.ManagedBy(), Credentials: c.Status.Credentials,
	}
	if accepted := t.Condition(v1beta1.ConditionAccepted); accepted != nil && accepted.Status == metav1.ConditionTrue {
		r.Accepted = accepted.Message
	}
	return r
}

// events returns the latest Events about an object, newest first.
func events(ctx context.Context, c *cluster.Cluster, t *cluster.Target) ([]eventReport, error) {
	found, err := describe.Events(ctx, c, t.Object, maxEvents)
	var events []eventReport
	for _, e := range found {
		events = append(events, eventReport{Time: e.LastTimestamp, Type: e.Type, Reason: e.Reason, Message: e.Message})
	}
	return events, err
}

func (r explanation) Text(w *terminal.Writer) {
	for i, f := range r.Findings {
		switch {
		case i > 0:
			w.Heading(f.Condition + ": " + f.Reason)
		case r.Ready:
			w.Paragraph(0, f.Color(), r.title+" is Ready")
		default:
			w.Paragraph(0, f.Color(), r.title+" is not Ready: "+f.Reason)
		}
		f.Text(w)
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
		{"Scopes", output.OrNone(r.Scopes, "none")},
		{"Delegated scopes", strings.Join(r.DelegatedScopes, ", ")},
		{"Audiences", output.OrNone(r.Audiences, "all that the grant allows")},
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

func instantOrEmpty(at *metav1.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339) + " (" + terminal.Relative(at.Time, now) + ")"
}

// droppedFields describes the fields that "kubectl apply" sent, but that the API server dropped because the
// kind doesn't have them. kubectl rejects them by default; --validate=false and some tools don't.
func droppedFields(obj client.Object) []string {
	applied := &unstructured.Unstructured{}
	if err := applied.UnmarshalJSON([]byte(obj.GetAnnotations()[corev1.LastAppliedConfigAnnotation])); err != nil {
		return nil // The object was not applied by kubectl, or with --server-side.
	}
	var notes []string
	for _, field := range unknownfields.Describe(applied) {
		notes = append(notes, "The manifest that was applied has an unknown field, which the API server dropped: "+field)
	}
	return notes
}

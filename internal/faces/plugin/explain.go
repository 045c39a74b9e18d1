package plugin

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
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

// errReported makes the process exit with code 1. The output already explains why.
var errReported = errors.New("not Ready")

func newExplainCommand(streams Streams) *cobra.Command {
	o := newClusterOptions(streams)
	ready := true
	command := o.aboutObject(&cobra.Command{
		Use:     "explain (apiclient/NAME | realm/NAME)",
		Short:   "Explain why a client or realm is not Ready, or what it allows",
		Long:    explainUsage,
		Example: explainExamples,
	}, func(ctx context.Context, c *cluster, t *target) (report, error) {
		r := c.explain(ctx, t)
		ready = r.Ready
		return r, nil
	})
	explain := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := explain(command, args); err != nil || ready {
			return err
		}
		return errReported
	}
	o.addTo(command)
	return command
}

// explanation is the report of explain.
type explanation struct {
	Kind      string        `json:"kind"`
	Namespace string        `json:"namespace,omitempty"`
	Name      string        `json:"name"`
	Ready     bool          `json:"ready"`
	Findings  []finding     `json:"findings"`
	Client    *clientReport `json:"apiClient,omitempty"`
	Realm     *realmReport  `json:"realm,omitempty"`
	Events    []eventReport `json:"events,omitempty"`
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

func (c *cluster) explain(ctx context.Context, t *target) explanation {
	if t.client != nil {
		parent := &v1beta1.Realm{}
		if err := c.Get(ctx, client.ObjectKey{Name: t.client.Spec.RealmRef.Name}, parent); err == nil {
			t.parent = parent
		}
	}
	r := explanation{
		Kind: t.kind, Namespace: t.object.GetNamespace(), Name: t.object.GetName(),
		Ready: t.state() == string(v1beta1.ReasonReady), Findings: t.findings(),
		title: t.String(), now: c.clock.now(),
	}
	if t.realm != nil {
		r.Realm = newRealmReport(t)
	} else {
		r.Client = newClientReport(t)
		r.Client.Exchanges = c.exchanges(ctx, t)
		if r.Client.TokenLifetime == "" && t.parent != nil {
			r.Client.TokenLifetime = describe.Duration(t.parent.Status.TokenLifetime)
		}
	}
	r.notes = append(r.notes, droppedFields(t.object)...)
	var err error
	if r.Events, err = c.events(ctx, t); err != nil {
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

func newClientReport(t *target) *clientReport {
	c := t.client
	r := &clientReport{
		ClientID: c.EffectiveClientID(), Description: c.Spec.Description, Realm: c.Spec.RealmRef.Name,
		TokenEndpoint: c.Status.TokenEndpoint, SecretName: c.Status.SecretName,
		Scopes: c.Spec.Scopes, DelegatedScopes: c.Spec.DelegatedScopes, Audiences: effective(c.Status.Audiences, c.Spec.Audiences), Grant: c.Status.Grant, IntrospectionAudiences: c.Spec.Introspection.Audiences,
		SenderConstraint: string(c.Spec.SenderConstraint), TokenLifetime: describe.Duration(c.Spec.TokenLifetime),
		ExpirationTime: c.Spec.ExpirationTime, TokensValidAfterTime: c.Spec.TokensValidAfterTime, NextRotationTime: c.Status.NextRotationTime,
		LastUsedTime: c.Status.LastUsedTime, ManagedBy: managedBy(t), Credentials: c.Status.Credentials,
	}
	if accepted := t.condition(v1beta1.ConditionAccepted); accepted != nil && accepted.Status == metav1.ConditionTrue {
		r.Accepted = accepted.Message
	}
	return r
}

// events returns the latest Events about an object, newest first.
func (c *cluster) events(ctx context.Context, t *target) ([]eventReport, error) {
	found, err := describe.Events(ctx, c, t.object, maxEvents)
	var events []eventReport
	for _, e := range found {
		events = append(events, eventReport{Time: e.LastTimestamp, Type: e.Type, Reason: e.Reason, Message: e.Message})
	}
	return events, err
}

package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

const staleUsage = `List the credentials that have not been used for a while, least recently used first. A credential
that was never used counts from its creation. Nothing is changed.

The time of a use has the resolution of the instance configuration, one hour by default.`

const staleExamples = `  # List the credentials of all namespaces that were not used for 90 days
  kubectl realmkeeper stale -A

  # List the credentials in a namespace that were not used for 36 hours
  kubectl realmkeeper stale -n acme-apps --older 36h`

// staleOptions are the arguments of the stale subcommand.
type staleOptions struct {
	*cluster.Options

	older string
	realm string
}

func newStaleCommand(streams output.Streams) *cobra.Command {
	o := &staleOptions{Options: cluster.NewOptions(streams)}
	command := &cobra.Command{
		Use:               "stale",
		Short:             "List credentials that have not been used for a while",
		Long:              staleUsage,
		Example:           staleExamples,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.run(command)
		},
	}
	o.AddTo(command)
	o.AddAllNamespaces(command)
	command.Flags().StringVar(&o.older, "older", "90d", "How long a credential must have been unused, in days or as a duration, such as 90d or 36h")
	command.Flags().StringVar(&o.realm, "realm", "", "List the credentials of this realm only")
	cluster.CompleteFlag(command, "realm", o.CompleteNames(cluster.KindRealm))
	return command
}

// staleCredential is a credential that has not been used for a while.
type staleCredential struct {
	Namespace string `json:"namespace"`
	Client    string `json:"client"`
	Realm     string `json:"realm"`
	v1beta1.CredentialStatus
	// UnusedSince is the last use, or the creation of a credential that was never used.
	UnusedSince metav1.Time `json:"unusedSince"`
}

// staleReport is the report of stale.
type staleReport struct {
	UnusedSinceBefore metav1.Time       `json:"unusedSinceBefore"`
	Credentials       []staleCredential `json:"credentials"`

	now           time.Time
	allNamespaces bool
}

func (o *staleOptions) run(command *cobra.Command) error {
	age, err := cluster.ParseAge("older", o.older)
	if err != nil {
		return err
	}
	c, err := o.Connect()
	if err != nil {
		return err
	}
	options := []client.ListOption{o.InNamespace(c)}
	if o.realm != "" {
		options = append(options, client.MatchingFields{realmField: o.realm})
	}
	r := staleReport{Credentials: []staleCredential{}, allNamespaces: o.AllNamespaces}
	visit := func(a *v1beta1.ApiClient) { r.add(a, c.Clock.Now().Add(-age)) }
	if err := c.EachClient(command.Context(), visit, options...); err != nil {
		return err
	}
	r.now = c.Clock.Now()
	r.UnusedSinceBefore = metav1.NewTime(r.now.Add(-age).UTC().Truncate(time.Second))
	slices.SortStableFunc(r.Credentials, func(a, b staleCredential) int {
		return cmp.Or(a.UnusedSince.Compare(b.UnusedSince.Time), strings.Compare(a.Namespace+"/"+a.Client+"/"+a.Name, b.Namespace+"/"+b.Client+"/"+b.Name))
	})
	if len(r.Credentials) == 0 && o.Output == "" {
		o.Progress("No credentials were unused for %s in %s.", o.older, o.Scope(c))
		return nil
	}
	return o.Print(r)
}

// realmField is the field that selects the ApiClients of a realm in requests to the API server.
const realmField = "spec.realmRef.name"

func (r *staleReport) add(c *v1beta1.ApiClient, before time.Time) {
	for _, credential := range c.Status.Credentials {
		since := c.UnusedSince(&credential)
		if !since.Before(before) {
			continue
		}
		r.Credentials = append(r.Credentials, staleCredential{
			Namespace: c.Namespace, Client: c.Name, Realm: c.Spec.RealmRef.Name,
			CredentialStatus: credential, UnusedSince: metav1.NewTime(since.UTC()),
		})
	}
}

func (r staleReport) Text(w *terminal.Writer) {
	header := []string{"CLIENT", "TYPE", "CREDENTIAL", "LAST USED", "CREATED"}
	if r.allNamespaces {
		header = append([]string{"NAMESPACE"}, header...)
	}
	var rows []terminal.Row
	for _, c := range r.Credentials {
		created := ""
		if c.CreationTime != nil {
			created = terminal.Relative(c.CreationTime.Time, r.now)
		}
		cells := []string{c.Client, string(c.Type), c.Name, lastUse(c.LastUsedTime, r.now), created}
		if r.allNamespaces {
			cells = append([]string{c.Namespace}, cells...)
		}
		rows = append(rows, terminal.Row{Cells: cells})
	}
	w.Table(header, rows)
}

// Package inspect has the subcommands that only read: status, explain, and stale.
package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
)

const statusUsage = `Show the state of this instance on one screen: problems first, each with what to do, then the
operator and the token servers, the realms with their signing keys, and the number of clients in
each state.

With the name of a realm, show this realm and its clients only. Clients of all namespaces count
unless --namespace is set. Parts that you may not read are omitted and named.`

const statusExamples = `  # Show the whole instance
  kubectl realmkeeper status

  # Show one realm with its signing keys
  kubectl realmkeeper status acme

  # Show the clients of one namespace only
  kubectl realmkeeper status -n acme-apps`

// Commands returns the verbs of this group.
func Commands(streams output.Streams) []*cobra.Command {
	return []*cobra.Command{newStatusCommand(streams), newExplainCommand(streams), newStaleCommand(streams)}
}

func newStatusCommand(streams output.Streams) *cobra.Command {
	o := cluster.NewOptions(streams)
	command := &cobra.Command{
		Use:               "status [REALM]",
		Short:             "Show the state of the instance or of a realm, problems first",
		Long:              statusUsage,
		Example:           statusExamples,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.CompleteNames(cluster.KindRealm),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := o.Connect()
			if err != nil {
				return err
			}
			o.AllNamespaces = o.AllNamespaces || o.NamespaceFlag() == ""
			r, err := ReadStatus(command.Context(), c, o, args)
			if err != nil {
				return err
			}
			return o.Print(r)
		},
	}
	o.AddTo(command)
	o.AddAllNamespaces(command)
	return command
}

// Status is the report of status.
type Status struct {
	Problems     []problem `json:"problems"`
	Kubernetes   string    `json:"kubernetes,omitempty"`
	Operator     *workload `json:"operator,omitempty"`
	TokenService *workload `json:"tokenService,omitempty"`
	// Instance is nil if it doesn't exist or can't be read.
	Instance *v1beta1.InstanceStatus `json:"instance,omitempty"`
	Realms   []realmSummary          `json:"realms"`
	Clients  map[string]int          `json:"clients"`
	Notes    []string                `json:"notes,omitempty"`
	detail   *realmReport            // of the realm that the user named
	restore  *leader.Restore         // that holds the leader Lease
	stopped  time.Time               // when the last leader stopped renewing the leader Lease; zero if one leads
	now      time.Time
}

// realmSummary is the state of a realm.
type realmSummary struct {
	Name                  string             `json:"name"`
	State                 string             `json:"state"`
	Issuer                string             `json:"issuer,omitempty"`
	Clients               int                `json:"clients"`
	SigningKeys           []signingKeyReport `json:"signingKeys,omitempty"`
	NextKeyTransitionTime *metav1.Time       `json:"nextKeyTransitionTime,omitempty"`
}

// ReadStatus reads the status of the instance, or of the realm in the arguments.
func ReadStatus(ctx context.Context, c *cluster.Cluster, o *cluster.Options, args []string) (*Status, error) {
	r := &Status{Problems: []problem{}, Realms: []realmSummary{}, Clients: map[string]int{}}
	problems := newProblems()
	realms, err := readRealms(ctx, c, args)
	if err != nil {
		return nil, err
	}
	options := []client.ListOption{o.InNamespace(c)}
	if len(args) == 1 {
		options = append(options, client.MatchingFields{realmField: args[0]})
	}
	inRealm := map[string]int{}
	visit := func(a *v1beta1.ApiClient) {
		t := &cluster.Target{Kind: cluster.KindClient, Object: a, Client: a}
		r.Clients[t.State()]++
		inRealm[a.Spec.RealmRef.Name]++
		problems.add(t)
	}
	if err := c.EachClient(ctx, visit, options...); err != nil {
		return nil, err
	}
	for _, realm := range realms {
		t := &cluster.Target{Kind: cluster.KindRealm, Object: realm, Realm: realm}
		problems.add(t)
		report := newRealmReport(t)
		r.Realms = append(r.Realms, realmSummary{
			Name: realm.Name, State: t.State(), Issuer: realm.Status.Issuer, Clients: inRealm[realm.Name],
			SigningKeys: report.SigningKeys, NextKeyTransitionTime: report.NextKeyTransitionTime,
		})
		if len(args) == 1 {
			r.detail = report
		}
	}
	r.addKubernetes(ctx, c)
	instance := r.addInstance(ctx, c)
	r.addWorkloads(ctx, c, instance)
	r.now = c.Clock.Now()
	r.Problems = slices.Concat(
		r.kubernetesProblems(), r.restoreProblems(), r.operatorProblems(), instanceProblems(instance), r.workloadProblems(), problems.sorted())
	return r, nil
}

// readRealms returns the realm that the user named, or all of them.
func readRealms(ctx context.Context, c *cluster.Cluster, args []string) ([]*v1beta1.Realm, error) {
	if len(args) == 1 {
		t, err := c.Find(ctx, "realm/"+args[0])
		if err != nil {
			return nil, err
		}
		return []*v1beta1.Realm{t.Realm}, nil
	}
	list := &v1beta1.RealmList{}
	if err := c.List(ctx, list); err != nil {
		return nil, cluster.DescribeError(err, "listing Realms")
	}
	var realms []*v1beta1.Realm
	for i := range list.Items {
		realms = append(realms, &list.Items[i])
	}
	return realms, nil
}

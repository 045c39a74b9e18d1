package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/provision/manifests"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
)

// accountsOptions are the flags of create client that need --for-service-accounts.
type accountsOptions struct {
	selector   string
	namespaces string
	outputDir  string
}

func (a *accountsOptions) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&a.selector, "selector", "l", "", "With --for-service-accounts, label selector of the service accounts. By default, all except those with the name default")
	flags.StringVar(&a.namespaces, "namespaces", "", "With --for-service-accounts, label selector of their namespaces, instead of --namespace. If it is empty, all namespaces")
	flags.StringVar(&a.outputDir, "output-dir", "", "With --for-service-accounts, folder of the manifests")
	_ = command.MarkFlagDirname("output-dir") // the flag exists
}

// accountSelection selects service accounts.
type accountSelection struct {
	accounts   labels.Selector
	namespaces labels.Selector // nil for the namespace of the cluster
}

// completeAccounts validates the arguments.
func (o *createOptions) completeAccounts(command *cobra.Command) (*accountSelection, error) {
	flags := command.Flags()
	for _, other := range []string{"expires-in", "hashed", "secret-file", "wait", "timeout"} {
		if flags.Changed(other) {
			return nil, fmt.Errorf("%w: --%s cannot be used with --for-service-accounts", output.ErrUsage, other)
		}
	}
	switch {
	case o.accounts.outputDir == "":
		return nil, fmt.Errorf("%w: --for-service-accounts needs --output-dir, a folder for the manifests", output.ErrUsage)
	case o.dryRun != dryRunNone && o.dryRun != dryRunClient:
		return nil, fmt.Errorf("%w: with --for-service-accounts, use --dry-run without a value", output.ErrUsage)
	case flags.Changed("namespaces") && o.NamespaceFlag() != "":
		return nil, fmt.Errorf("%w: use either --namespace or --namespaces", output.ErrUsage)
	}
	accounts, err := labels.Parse(o.accounts.selector)
	if err != nil {
		return nil, fmt.Errorf("%w: --selector: %w", output.ErrUsage, err)
	}
	s := &accountSelection{accounts: accounts}
	if flags.Changed("namespaces") {
		if s.namespaces, err = labels.Parse(o.accounts.namespaces); err != nil {
			return nil, fmt.Errorf("%w: --namespaces: %w", output.ErrUsage, err)
		}
	}
	return s, o.checkValues()
}

// writeForAccounts writes an ApiClient for each selected service account.
func (o *createOptions) writeForAccounts(command *cobra.Command) error {
	selection, err := o.completeAccounts(command)
	if err != nil {
		return err
	}
	folder, err := manifests.Read(o.accounts.outputDir)
	if err != nil {
		return err
	}
	c, err := o.Connect()
	if err != nil {
		return err
	}
	plan, err := o.planAccounts(command.Context(), c, folder, selection)
	if err != nil {
		return nothingCreated(err)
	}
	if !plan.DryRun {
		if err := folder.Write(plan); err != nil {
			return err
		}
	}
	return o.Print(plan)
}

// planAccounts reads the cluster, and compares the folder with it.
func (o *createOptions) planAccounts(ctx context.Context, c *cluster.Cluster, folder *manifests.Folder, selection *accountSelection) (*manifests.Plan, error) {
	realm, notes, err := readRealm(ctx, c, &v1beta1.ApiClientSpec{RealmRef: v1beta1.RealmReference{Name: o.realm}, Scopes: o.scopes, Audiences: o.audiences})
	if err != nil {
		return nil, err
	}
	namespaces, err := selection.readNamespaces(ctx, c, realm)
	if err != nil {
		return nil, err
	}
	accounts, err := selection.readAccounts(ctx, c, namespaces)
	if err != nil {
		return nil, err
	}
	var existing []*v1beta1.ApiClient
	if err := c.EachClient(ctx, func(a *v1beta1.ApiClient) {
		a.ManagedFields, a.Status = nil, v1beta1.ApiClientStatus{} // to save memory
		existing = append(existing, a)
	}, selection.in(c)); err != nil {
		return nil, err
	}
	wanted, skipped, undecided := o.acceptedClients(realm, namespaces, accounts)
	for _, namespace := range undecided {
		notes = append(notes, labelsUnknown(namespace))
	}
	for _, note := range notes {
		o.Progress("%s", note)
	}
	only := c.Namespace
	if selection.namespaces != nil {
		only = ""
	}
	plan, err := folder.Plan(wanted, existing, only)
	if err != nil {
		return nil, err
	}
	if len(accounts)+len(plan.NoLongerMatching) == 0 {
		return nil, selection.noAccounts(c, namespaces)
	}
	plan.DryRun, plan.Skipped = o.dryRun == dryRunClient, skipped
	return plan, nil
}

// acceptedClients returns an ApiClient for each service account, except in namespaces without a grant of the realm. For
// undecided namespaces, that is not known. realm is nil if the user may not read it.
func (o *createOptions) acceptedClients(
	realm *v1beta1.Realm, namespaces map[string]map[string]string, accounts map[string][]string,
) (accepted []*v1beta1.ApiClient, skipped []manifests.Namespace, undecided []string) {
	skipped = []manifests.Namespace{} // not null in JSON
	for _, namespace := range slices.Sorted(maps.Keys(accounts)) {
		clients := make([]*v1beta1.ApiClient, len(accounts[namespace]))
		for i, name := range accounts[namespace] {
			clients[i] = manifests.ForAccount(client.ObjectKey{Namespace: namespace, Name: name}, o.realm, o.scopes, o.audiences)
		}
		if realm != nil {
			// The clients of a namespace differ only in their names, on which grants do not depend.
			request := grants.Request{Realm: realm, Issuer: realm.Status.Issuer, Client: clients[0], NamespaceLabels: namespaces[namespace]}
			switch coverage := request.Coverage(); {
			case coverage.Covers():
			case coverage.Undecided:
				undecided = append(undecided, namespace)
			default:
				skipped = append(skipped, manifests.Namespace{Name: namespace, ServiceAccounts: len(clients), Reason: coverage.Problem()})
				continue
			}
		}
		accepted = append(accepted, clients...)
	}
	return accepted, skipped, undecided
}

// in restricts a list to the namespace. Those that --namespaces selects are read together.
func (s *accountSelection) in(c *cluster.Cluster) client.ListOption {
	if s.namespaces != nil {
		return client.InNamespace("")
	}
	return client.InNamespace(c.Namespace)
}

// readNamespaces returns the labels of the selected namespaces, except for those that are being deleted. The labels are
// nil if they are not known.
func (s *accountSelection) readNamespaces(ctx context.Context, c *cluster.Cluster, realm *v1beta1.Realm) (map[string]map[string]string, error) {
	found := map[string]map[string]string{}
	if s.namespaces == nil {
		var err error
		found[c.Namespace], err = namespaceLabels(ctx, c, realm, c.Namespace)
		return found, err
	}
	return found, cluster.EachPage(ctx, c, "namespaces", func(page *corev1.NamespaceList) {
		for i := range page.Items {
			if n := &page.Items[i]; n.DeletionTimestamp == nil {
				found[n.Name] = n.Labels
			}
		}
	}, client.MatchingLabelsSelector{Selector: s.namespaces})
}

var errNoAccounts = errors.New("no service account")

// readAccounts returns the names of the selected service accounts by namespace, except for those that are being deleted.
// No ApiClient can list the account default.
func (s *accountSelection) readAccounts(ctx context.Context, c *cluster.Cluster, namespaces map[string]map[string]string) (map[string][]string, error) {
	found := map[string][]string{}
	err := cluster.EachPage(ctx, c, "service accounts", func(page *corev1.ServiceAccountList) {
		for i := range page.Items {
			a := &page.Items[i]
			if _, selected := namespaces[a.Namespace]; selected && a.Name != "default" && a.DeletionTimestamp == nil {
				found[a.Namespace] = append(found[a.Namespace], a.Name)
			}
		}
	}, s.in(c), client.MatchingLabelsSelector{Selector: s.accounts})
	return found, err
}

// noAccounts returns the error if no service account is selected.
func (s *accountSelection) noAccounts(c *cluster.Cluster, namespaces map[string]map[string]string) error {
	where := "namespace " + c.Namespace
	if s.namespaces != nil {
		where = output.Number(len(namespaces), "namespace") + fmt.Sprintf(" selected by --namespaces %q", s.namespaces)
	}
	return fmt.Errorf("%w in %s matches --selector %q; the flags are label selectors, such as team=acme", errNoAccounts, where, s.accounts)
}

package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
)

// ExactlyOneObject checks that the user named one object.
func ExactlyOneObject(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%w: specify one object, such as apiclient/billing; got %d arguments", output.ErrUsage, len(args))
	}
	return nil
}

// Completion completes arguments or values of a flag.
type Completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// CompleteFlag completes the values of a flag. It panics if the command doesn't have the flag.
func CompleteFlag(command *cobra.Command, name string, values Completion) {
	if err := command.RegisterFlagCompletionFunc(name, values); err != nil {
		panic(err)
	}
}

// completeObjects completes arguments such as apiclient/NAME for the given kinds. Without a slash, it
// offers the kinds first.
func (o *Options) completeObjects(offered ...string) Completion {
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		kind, _, named := strings.Cut(prefix, "/")
		if !named {
			var values []string
			for _, k := range offered {
				values = append(values, strings.ToLower(k)+"/")
			}
			return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		if !slices.Contains(offered, kinds[kind]) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var values []string
		for _, name := range o.Names(command, kinds[kind]) {
			values = append(values, kind+"/"+name)
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteNames completes the names of one kind.
func (o *Options) CompleteNames(kind string) Completion {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.Names(command, kind), cobra.ShellCompDirectiveNoFileComp
	}
}

// Names returns the names of the realms, or of the clients in the selected namespace. It returns no
// names on an error, because a shell can't show errors of completions.
func (o *Options) Names(command *cobra.Command, kind string) []string {
	c, err := o.Connect()
	if err != nil {
		return nil
	}
	var names []string
	if kind == KindRealm {
		list := &v1beta1.RealmList{}
		if err := c.List(command.Context(), list); err != nil {
			return nil
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names
	}
	if err := c.EachClient(command.Context(), func(a *v1beta1.ApiClient) { names = append(names, a.Name) }, o.InNamespace(c)); err != nil {
		return nil
	}
	return names
}

func (o *Options) completeNamespaces(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := o.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := &corev1.NamespaceList{}
	if err := c.List(command.Context(), list); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (o *Options) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	config, err := o.kubeconfig.loaded.RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// Package provision has the subcommands that create clients and hash their secrets.
package provision

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

const createClientUsage = `Create an ApiClient. Before that, check that the realm defines its scopes and audiences, and that a
grant of the realm covers it.

The operator generates the client secret and writes it to a Secret. With --hashed, this command
generates the secret and shows it once, and the cluster stores only its hash.

As with kubectl create, --output prints the object after it was created. To print a manifest and
create nothing, use --dry-run=client --output=yaml. This needs no access to a cluster, and checks
little. With --output, the secret of --hashed is written to standard error, so that standard output
contains only the object.

With --for-service-accounts, create nothing in the cluster, but write the manifest of an ApiClient
for each service account to a folder of a repository, as NAMESPACE/apiclient-NAME.yaml. The client
has the name of the account. Repeat the command to update the folder: it changes only what differs,
and leaves alone what people wrote or changed. It deletes nothing. You need permission to get the
Realm, and to list ServiceAccounts, ApiClients, and Namespaces if you select these.`

const createClientExamples = `  # Create a client, wait until it is Ready, and show how to get a token
  kubectl realmkeeper create client billing --realm acme --scope orders.read -n acme-apps --wait

  # Create a client that expires, and show its secret, which the cluster never stores
  kubectl realmkeeper create client partner --realm acme --scope orders.read --expires-in 90d --hashed -n acme-apps

  # Write a manifest for a repository, and the secret to another file
  kubectl realmkeeper create client partner --realm acme --scope orders.read -n acme-apps \
    --hashed --secret-file secret.txt --dry-run=client -o yaml > partner.yaml

  # Write manifests for the service accounts with a label, in the namespaces with a label
  kubectl realmkeeper create client --for-service-accounts --selector app --namespaces team=acme \
    --realm acme --scope orders.read --output-dir clients --dry-run`

// Values of --dry-run, which are those of kubectl.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// createOptions are the arguments of the create client subcommand.
type createOptions struct {
	cluster.WaitOptions

	realm      string
	scopes     []string
	audiences  []string
	expiresIn  string
	hashed     bool
	secretFile string
	dryRun     string

	forAccounts bool
	accounts    accountsOptions
}

// Commands returns the verbs of this group.
func Commands(streams output.Streams) []*cobra.Command {
	return []*cobra.Command{newCreateCommand(streams), newHashCommand(streams)}
}

func newCreateCommand(streams output.Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "create",
		Short: "Create an API client",
		Long:  "Create an ApiClient. Realms are created from a manifest, with kubectl apply.",
		// An unknown kind is an error, as are unknown commands.
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newCreateClientCommand(streams))
	return command
}

func newCreateClientCommand(streams output.Streams) *cobra.Command {
	o := &createOptions{WaitOptions: cluster.WaitOptions{Options: cluster.NewOptions(streams)}}
	command := &cobra.Command{
		Use:               "client (NAME | --for-service-accounts --output-dir DIR) --realm REALM [--scope SCOPE]...",
		Aliases:           []string{"apiclient", "apic"},
		Short:             "Create an ApiClient, and show what to do next",
		Long:              createClientUsage,
		Example:           createClientExamples,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(command *cobra.Command, args []string) error {
			if o.forAccounts {
				return cobra.NoArgs(command, args)
			}
			if len(args) != 1 || strings.Contains(args[0], "/") {
				return fmt.Errorf("%w: specify one name for the new ApiClient, such as billing; got %q", output.ErrUsage, args)
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			if o.forAccounts {
				return o.writeForAccounts(command)
			}
			return o.run(command.Context(), args[0])
		},
	}
	o.AddTo(command)
	flags := command.Flags()
	flags.StringVar(&o.realm, "realm", "", "Realm of the client. Required")
	flags.StringArrayVar(&o.scopes, "scope", nil, "Scope that the client can request. Repeat the flag for more than one")
	flags.StringArrayVar(&o.audiences, "audience", nil, "Audience of its tokens. Repeat the flag for more than one. Defaults to all that the grant allows")
	flags.StringVar(&o.expiresIn, "expires-in", "", "When the client expires, from now, in days or as a duration, such as 90d or 36h. By default, it does not expire")
	flags.BoolVar(&o.hashed, "hashed", false, "Generate the secret here, show it once, and store only its hash in the cluster")
	flags.StringVar(&o.secretFile, "secret-file", "", "With --hashed, write the secret to this file instead of showing it. The file must not exist and is created with mode 0600")
	flags.StringVar(&o.dryRun, "dry-run", dryRunNone, "Create nothing: client does not contact the cluster, except with --for-service-accounts, and server lets the API server check the object")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.BoolVar(&o.Wait, "wait", false, "Wait until the client is Ready, or until it is known why it is not")
	flags.DurationVar(&o.Timeout, "timeout", time.Minute, "How long to wait")
	flags.BoolVar(&o.forAccounts, "for-service-accounts", false, "Write a manifest for each service account to --output-dir")
	o.accounts.addTo(command)
	_ = command.MarkFlagRequired("realm") // the flag exists
	cluster.CompleteFlag(command, "realm", func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return o.Names(command, cluster.KindRealm), cobra.ShellCompDirectiveNoFileComp
	})
	cluster.CompleteFlag(command, "scope", o.completeFrom(func(r *v1beta1.Realm) []string { return r.Spec.Scopes }))
	cluster.CompleteFlag(command, "audience", o.completeFrom(grants.KnownAudiences))
	cluster.CompleteFlag(command, "dry-run", cobra.FixedCompletions([]string{dryRunNone, dryRunClient, dryRunServer}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// completeFrom completes a flag with values of the realm in --realm.
func (o *createOptions) completeFrom(values func(*v1beta1.Realm) []string) cluster.Completion {
	return func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		realm := &v1beta1.Realm{}
		c, err := o.Connect()
		if err != nil || c.Get(command.Context(), client.ObjectKey{Name: o.realm}, realm) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values(realm), cobra.ShellCompDirectiveNoFileComp
	}
}

// complete validates the arguments.
func (o *createOptions) complete(name string) (expiresIn time.Duration, err error) {
	switch {
	case !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, o.dryRun):
		return 0, fmt.Errorf("%w: unsupported --dry-run %q; use none, client, or server", output.ErrUsage, o.dryRun)
	case o.dryRun != dryRunNone && o.Wait:
		return 0, fmt.Errorf("%w: --wait cannot be used with --dry-run, which creates nothing to wait for", output.ErrUsage)
	case o.secretFile != "" && !o.hashed:
		return 0, fmt.Errorf("%w: --secret-file needs --hashed; otherwise the operator generates the secret", output.ErrUsage)
	case o.expiresIn != "":
		if expiresIn, err = cluster.ParseAge("expires-in", o.expiresIn); err != nil {
			return 0, err
		}
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return 0, fmt.Errorf("%w: the name %q must have only lowercase letters, digits, hyphens, and dots, with a letter or digit at both ends", output.ErrUsage, name)
	}
	return expiresIn, o.checkValues()
}

func (o *createOptions) run(ctx context.Context, name string) error {
	expiresIn, err := o.complete(name)
	if err != nil {
		return err
	}
	t, secret, err := o.build(name)
	if err != nil {
		return err
	}
	c, clock, notes := (*cluster.Cluster)(nil), &cluster.Clock{}, []string(nil)
	if o.dryRun != dryRunClient {
		if c, err = o.Connect(); err != nil {
			return err
		}
		if notes, err = checkRealm(ctx, c, t); err != nil {
			return nothingCreated(err)
		}
		clock = c.Clock
	}
	if expiresIn > 0 {
		t.Client.Spec.ExpirationTime = &metav1.Time{Time: clock.Next().Add(expiresIn)}
	}
	if o.dryRun != dryRunNone && o.Output == "" {
		secret = "" // The hash is not shown either, so the secret would be useless.
	}
	if err := o.store(ctx, c, t, secret); err != nil {
		return err
	}
	return o.report(ctx, c, t, secret, notes)
}

// build returns the new object, and its secret if it is generated here.
func (o *createOptions) build(name string) (t *cluster.Target, secret string, err error) {
	namespace, explicit, err := o.Namespace()
	if err != nil {
		return nil, "", err
	}
	t = newClientTarget(namespace, name)
	t.Client.Spec = v1beta1.ApiClientSpec{RealmRef: v1beta1.RealmReference{Name: o.realm}, Scopes: o.scopes, Audiences: o.audiences}
	if secret, err = o.setSecret(t.Client); err != nil {
		return nil, "", err
	}
	if o.dryRun == dryRunClient && !explicit {
		t.Client.Namespace = "" // as kubectl does, so that the manifest can be applied to any namespace
	}
	return t, secret, nil
}

// store writes the secret to the file, and then creates the object, unless c is nil. In this order, a
// file that exists can't prevent the user from getting the secret of a new client. If the creation fails, the
// file is removed. If it is unknown whether a client has the secret, the error says to delete that client.
func (o *createOptions) store(ctx context.Context, c *cluster.Cluster, t *cluster.Target, secret string) error {
	toFile := secret != "" && o.secretFile != ""
	if toFile {
		if err := writeNew(o.secretFile, secret); err != nil {
			return nothingCreated(err)
		}
	}
	if c == nil {
		return nil
	}
	err := o.create(ctx, c, t)
	if err != nil && toFile {
		_ = os.Remove(o.secretFile)
	}
	return err
}

func newClientTarget(namespace, name string) *cluster.Target {
	c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(cluster.KindClient))
	return &cluster.Target{Kind: cluster.KindClient, Object: c, Client: c}
}

// setSecret sets the source of the client secret. It returns the secret if it is generated here.
func (o *createOptions) setSecret(c *v1beta1.ApiClient) (secret string, err error) {
	if !o.hashed {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
		return "", nil
	}
	if secret, err = clientsecret.Generate(rand.Reader); err != nil {
		return "", err
	}
	hashed, err := hashSecret(secret, "", rand.Reader)
	c.Spec.Secret = &v1beta1.ClientSecretSource{Hashed: []v1beta1.HashedSecret{hashed}}
	return secret, err
}

// checkValues checks values that are often wrong, so that a manifest for a repository does not have them. The API
// server checks everything.
func (o *createOptions) checkValues() error {
	if err := o.CheckOutput(); err != nil {
		return err
	}
	if len(validation.IsDNS1123Label(o.realm)) > 0 {
		return fmt.Errorf("%w: --realm %q must be a valid Realm name: at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends", output.ErrUsage, o.realm)
	}
	for _, flag := range []string{"scope", "audience"} {
		values := map[string][]string{"scope": o.scopes, "audience": o.audiences}[flag]
		for i, value := range values {
			if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return fmt.Errorf("%w: --%s %q must have only printable ASCII characters without spaces; repeat the flag for each %s", output.ErrUsage, flag, value, flag)
			}
			if slices.Contains(values[:i], value) {
				return fmt.Errorf("%w: --%s %q is given twice", output.ErrUsage, flag, value)
			}
		}
	}
	return nil
}

// create creates the object, or lets the API server check it.
func (o *createOptions) create(ctx context.Context, c *cluster.Cluster, t *cluster.Target) error {
	options := []client.CreateOption{client.FieldOwner(gitops.FieldOwnerPluginCreate)}
	if o.dryRun == dryRunServer {
		options = append(options, client.DryRunAll)
	}
	if err := c.Create(ctx, t.Client, options...); err != nil {
		return createError(ctx, c, t, err)
	}
	return nil
}

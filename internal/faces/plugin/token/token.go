// Package token has the subcommand token, which gets an access token and shows its claims.
package token

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
)

const tokenUsage = `Get an access token with the credentials of an ApiClient and print its header and claims.

The credentials are read from the Secret of the ApiClient, which requires permission to get
ApiClients and Secrets in the namespace, or from a directory where that Secret is mounted. The
client secret is never printed. The token itself is printed only with --output=token, and with
--output=exec-credential, which is for the exec plugins of a kubeconfig.`

const tokenExamples = `  # Check that a client can get tokens and show their claims
  kubectl realmkeeper token billing -n acme-apps

  # Call an API with an access token
  curl -H "Authorization: Bearer $(kubectl realmkeeper token billing -n acme-apps -o token)" https://orders.example.com

  # In a Pod, read the credentials from a mounted Secret and retry for up to one minute
  kubectl-realmkeeper token --from-directory /credentials --wait 60s`

// Values of --output.
const (
	outputToken          = "token"
	outputExecCredential = "exec-credential"
)

// tokenOptions are the arguments of the token subcommand.
type tokenOptions struct {
	*cluster.Options

	name       string
	directory  string
	clusterURL bool
	scope      string
	audience   string
	format     string
	version    string // of the ExecCredential
	wait       time.Duration
}

// NewCommand returns the verb.
func NewCommand(streams output.Streams) *cobra.Command {
	o := tokenOptions{Options: cluster.NewOptions(streams)}
	command := &cobra.Command{
		Use:               "token (NAME | --from-directory DIR)",
		Short:             "Get an access token for an ApiClient and print its claims",
		Long:              tokenUsage,
		Example:           tokenExamples,
		ValidArgsFunction: o.CompleteNames(cluster.KindClient),
		RunE: func(command *cobra.Command, args []string) error {
			if !command.Flags().Changed("cluster-url") {
				o.clusterURL = o.directory != ""
			}
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(command.Context())
		},
	}
	o.AddConnection(command)
	flags := command.Flags()
	flags.StringVar(&o.directory, "from-directory", "", "Read the credentials from the Secret mounted at this directory, with the default data keys. No cluster access is needed")
	flags.BoolVar(&o.clusterURL, "cluster-url", false, "Request the token from cluster_token_url, the endpoint for workloads in the cluster, instead of token_url. Defaults to true with --from-directory")
	flags.StringVar(&o.scope, "scope", "", "Scopes to request, separated by spaces. Defaults to all scopes of the client")
	flags.StringVar(&o.audience, "audience", "", "Audiences to request, separated by spaces. Defaults to all audiences of the client")
	flags.StringVarP(&o.format, "output", "o", "", "Output format: token prints only the access token, and exec-credential an ExecCredential with it. Defaults to text without the token")
	flags.DurationVar(&o.wait, "wait", 0, "How long to retry transient failures, such as 60s")
	cluster.CompleteFlag(command, "output", cobra.FixedCompletions([]string{outputToken, outputExecCredential}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// complete reads the positional arguments and validates all options.
func (o *tokenOptions) complete(args []string) (err error) {
	switch {
	case len(args) > 1, len(args) == 1 && o.directory != "":
		return fmt.Errorf("%w: unexpected argument %q; specify one ApiClient name or --from-directory", output.ErrUsage, args[len(args)-1])
	case len(args) == 1:
		o.name = strings.TrimPrefix(args[0], "apiclient/") // as other verbs name it
	}
	if o.name == "" && o.directory == "" {
		return fmt.Errorf("%w: specify an ApiClient name or --from-directory", output.ErrUsage)
	}
	switch o.format {
	case "", outputToken:
		return nil
	case outputExecCredential:
		o.version, err = execVersion()
		return err
	}
	return fmt.Errorf("%w: unsupported --output %q; use %s or %s, or omit the flag", output.ErrUsage, o.format, outputToken, outputExecCredential)
}

func (o *tokenOptions) run(ctx context.Context) error {
	read, err := o.source()
	if err != nil {
		return err
	}
	var from credentials
	var token *oauth2.Token
	err = retry(ctx, o.wait, func() (err error) {
		if from, err = read(ctx); err != nil {
			return err
		}
		token, err = requestToken(ctx, from, o.scope, o.audience)
		return err
	})
	if err != nil {
		return err
	}
	switch o.format {
	case outputToken:
		_, err := fmt.Fprintln(o.Streams.Out, token.AccessToken)
		return err
	case outputExecCredential:
		response, err := execCredential(o.version, token, time.Now())
		if err != nil {
			return err
		}
		return json.NewEncoder(o.Streams.Out).Encode(response)
	}
	return describeToken(o.Streams.Out, from.endpoint, token)
}

func (o *tokenOptions) source() (source, error) {
	if o.directory != "" {
		return fromDirectory(o.directory, o.clusterURL), nil
	}
	if o.format == outputExecCredential {
		if err := preventRecursion(); err != nil {
			return nil, err
		}
	}
	return fromCluster(o.Options, o.name, o.clusterURL)
}

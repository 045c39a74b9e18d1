package kubectlplugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const tokenUsage = `Get an access token with the credentials of an ApiClient, and show what it says.

The credentials come from the Secret of the ApiClient, which you must have the right to
read, or from a directory where that Secret is mounted. Neither token nor client secret
is shown, unless --output token asks for the token and nothing else.`

const tokenExamples = `  # Does this client work, and what do its tokens say?
  kubectl realmkeeper token billing -n acme-apps

  # Call an API
  curl -H "Authorization: Bearer $(kubectl realmkeeper token billing -n acme-apps -o token)" https://orders.example.com

  # In a Pod, from a mounted Secret; try again for up to a minute
  kubectl-realmkeeper token --from-directory /credentials --wait 60s`

// outputToken is the value of --output that shows the access token alone.
const outputToken = "token"

var errUsage = errors.New("bad arguments")

// tokenOptions are the arguments of the verb token.
type tokenOptions struct {
	cluster    *genericclioptions.ConfigFlags
	name       string
	directory  string
	clusterURL bool
	output     string
	wait       time.Duration
}

func newTokenCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := tokenOptions{cluster: genericclioptions.NewConfigFlags(true).WithWarningPrinter(streams)}
	command := &cobra.Command{
		Use:     "token (NAME | --from-directory DIR)",
		Short:   "Get an access token as an ApiClient does, and show what it says",
		Long:    tokenUsage,
		Example: tokenExamples,
		RunE: func(command *cobra.Command, args []string) error {
			if !command.Flags().Changed("cluster-url") {
				o.clusterURL = o.directory != ""
			}
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(command.Context(), streams)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.directory, "from-directory", "", "Take the credentials from the files of a mounted Secret in this directory, whose data keys have their default names. No cluster is needed.")
	flags.BoolVar(&o.clusterURL, "cluster-url", false, "Ask at cluster_token_url, which is for workloads of the cluster, instead of token_url. Default with --from-directory: true.")
	flags.StringVarP(&o.output, "output", "o", "", "What to print: left out, what the token says; token, the access token alone.")
	flags.DurationVar(&o.wait, "wait", 0, "For how long to try again after a failure that may pass by itself, such as 60s.")
	o.cluster.AddFlags(flags)
	return command
}

// complete checks the arguments that don't stand in flags, and how all go together.
func (o *tokenOptions) complete(args []string) error {
	switch {
	case len(args) > 1, len(args) == 1 && o.directory != "":
		return fmt.Errorf("%w: unexpected argument %q; give the name of one ApiClient, or --from-directory", errUsage, args[len(args)-1])
	case len(args) == 1:
		o.name = args[0]
	case o.directory == "":
		return fmt.Errorf("%w: give the name of an ApiClient, or --from-directory", errUsage)
	}
	if o.output != "" && o.output != outputToken {
		return fmt.Errorf("%w: --output must be %s or left out, not %q", errUsage, outputToken, o.output)
	}
	return nil
}

func (o *tokenOptions) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	read := fromDirectory(o.directory, o.clusterURL)
	if o.directory == "" {
		var err error
		if read, err = fromCluster(o.cluster, o.name, o.clusterURL); err != nil {
			return err
		}
	}
	var from credentials
	var token *oauth2.Token
	err := persist(ctx, o.wait, func() (err error) {
		if from, err = read(ctx); err != nil {
			return err
		}
		token, err = requestToken(ctx, from)
		return err
	})
	if err != nil {
		return err
	}
	if o.output == outputToken {
		_, err := fmt.Fprintln(streams.Out, token.AccessToken)
		return err
	}
	return writeFacts(streams.Out, from.endpoint, token)
}

package cluster

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfig is what kubectl's connection flags select. The files are read once.
type kubeconfig struct {
	loaded    clientcmd.ClientConfig
	rules     *clientcmd.ClientConfigLoadingRules
	overrides *clientcmd.ConfigOverrides
}

func newKubeconfig() *kubeconfig {
	k := &kubeconfig{
		rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults},
	}
	k.rules.DefaultClientConfig = &clientcmd.DefaultClientConfig // as kubectl does
	k.loaded = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, k.overrides)
	return k
}

// addFlags adds kubectl's connection flags to a command.
func (k *kubeconfig) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&k.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file to use for CLI requests.")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(k.overrides, flags, names)
	flags.Func("as-user-extra", "User extras to impersonate for the operation as `key=value`, this flag can be repeated to specify multiple values for the same key.", k.addUserExtra)
}

var errNotPair = errors.New("must be key=value")

func (k *kubeconfig) addUserExtra(extra string) error {
	key, value, ok := strings.Cut(extra, "=")
	if !ok {
		return errNotPair
	}
	user := &k.overrides.AuthInfo
	if user.ImpersonateUserExtra == nil {
		user.ImpersonateUserExtra = map[string][]string{}
	}
	user.ImpersonateUserExtra[key] = append(user.ImpersonateUserExtra[key], value)
	return nil
}

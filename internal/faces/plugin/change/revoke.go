package change

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

const revokeUsage = `Revoke the tokens that an ApiClient, or all clients of a Realm, got until now. The introspection and
verify endpoints reject them; new tokens are issued. With --secret, also replace the generated
secret of an ApiClient, and reject the old one immediately. Use this if the secret leaked. With
--wait, this also revokes the tokens that the old secret got until every token server rejected it.

For an ApiClient that was restored from a backup, this also rejects the secrets of the backup, with or
without --secret.

Resource servers that verify tokens offline accept existing tokens until these expire, unless they use
the status list of the realm.`

const revokeExamples = `  # Reject the tokens that a client got until now
  kubectl realmkeeper revoke apiclient/billing -n acme-apps --wait

  # The secret leaked: replace it, and reject the tokens too. Workloads fail until they use the new secret
  kubectl realmkeeper revoke apiclient/billing -n acme-apps --secret --wait`

// revokeOptions are the arguments of the revoke subcommand.
type revokeOptions struct {
	changeOptions

	secret bool
}

func newRevokeCommand(streams output.Streams) *cobra.Command {
	o := &revokeOptions{changeOptions: newChangeOptions(streams)}
	command := o.AboutObject(&cobra.Command{
		Use:     "revoke (apiclient/NAME | realm/NAME)",
		Short:   "Revoke the tokens of a client or realm, and a leaked secret",
		Long:    revokeUsage,
		Example: revokeExamples,
	}, func(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (output.Report, error) {
		return o.run(ctx, c, t)
	})
	o.addChangeFlags(command, false, "every live token server has loaded the change")
	command.Flags().BoolVar(&o.secret, "secret", false, "Also replace the generated secret, and reject the old one immediately")
	return command
}

// newSecret returns what happens to the credentials Secret.
func (o *revokeOptions) newSecret(name string) string {
	message := "The operator writes a new secret to Secret %s."
	if o.Wait {
		message = "Secret %s contains a new secret."
	}
	return fmt.Sprintf(message+" Workloads fail until they use it.", name)
}

func (o *revokeOptions) run(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (changed, error) {
	r := newChanged(t, "revoked")
	old := map[string]bool{}
	if o.secret {
		if err := checkGenerated(t); err != nil {
			return r, err
		}
		// The operator drops a retiring generated secret together with the current one. A retiring secret of
		// another kind stays valid until the end of its overlap.
		for _, s := range t.Client.Status.Secrets() {
			old[s.Name] = s.State != v1beta1.CredentialRetiring
		}
	}
	at := c.Clock.Next()
	if err := o.set(ctx, c, t, timestamp.Format(at), "tokensValidAfterTime"); err != nil {
		return r, err
	}
	if o.secret {
		if err := removeSecrets(ctx, c, t.Client); err != nil {
			return r, err
		}
		r.Messages = append(r.Messages, o.newSecret(t.Client.EffectiveSecretName()))
	}
	if o.Wait {
		if err := o.awaitRevoked(ctx, c, t, old); err != nil {
			return r, err
		}
	}
	switch {
	case !o.secret:
	case o.Wait:
		// Until now, anyone with the old secret could get tokens, so revoke these tokens too.
		at = c.Clock.Next()
		if err := o.set(ctx, c, t, timestamp.Format(at), "tokensValidAfterTime"); err != nil {
			return r, err
		}
		if err := o.awaitRevoked(ctx, c, t, old); err != nil {
			return r, err
		}
	default:
		r.Commands = []string{t.Command("revoke") + " --wait"}
	}
	r.Messages = append(r.Messages, fmt.Sprintf("Tokens issued before %s are rejected by introspection and verification. Resource servers that verify offline accept them until they expire, unless they use the status list of the realm.", timestamp.Format(at)))
	if len(r.Commands) > 0 {
		r.Messages = append(r.Messages, "Until every token server rejects the old secret, it can still get tokens. Revoke these after the client is Ready again:")
	}
	r.Effective = o.Wait
	return r, nil
}

// awaitRevoked waits until every live token server has loaded the change and none of the old secrets is
// left. old is empty if the secret isn't replaced.
func (o *revokeOptions) awaitRevoked(ctx context.Context, c *cluster.Cluster, t *cluster.Target, old map[string]bool) error {
	return o.Await(ctx, c, t, func() (string, bool, error) {
		for _, s := range secretsOf(t) {
			if old[s.Name] {
				return "Waiting for a new secret", false, nil
			}
		}
		if o.secret && len(secretsOf(t)) == 0 {
			return "Waiting for a new secret", false, nil
		}
		return loaded(t)
	})
}

func secretsOf(t *cluster.Target) []v1beta1.CredentialStatus {
	if t.Client == nil {
		return nil
	}
	return t.Client.Status.Secrets()
}

var errNotGenerated = errors.New("has no generated secret")

// checkGenerated returns an error that says how to replace the credential of a client whose secret
// the operator doesn't generate.
func checkGenerated(t *cluster.Target) error {
	if t.Client == nil {
		return fmt.Errorf("%w: a Realm has no secret; name an ApiClient", output.ErrUsage)
	}
	source := t.Client.Spec.Secret
	switch {
	case source == nil:
		return fmt.Errorf("%s %w; replace its keys or identities in the spec: kubectl edit apiclient %s -n %s", t, errNotGenerated, untrusted.Quote(t.Client.Name), untrusted.Quote(t.Client.Namespace))
	case source.Provided != nil:
		return fmt.Errorf("%s %w; change the value of key %q in Secret %q, and the token servers follow", t, errNotGenerated, source.Provided.SecretRef.EffectiveKey(), source.Provided.SecretRef.Name)
	case source.Generated == nil:
		return fmt.Errorf("%s %w; get the hash of a new one with \"kubectl realmkeeper hash\" and put it into spec.secret.hashed", t, errNotGenerated)
	}
	return nil
}

// removeSecrets removes all client secrets from the credentials Secret. The operator then generates a new
// secret and revokes the old ones. What others have added to the Secret stays. A Secret that the client
// doesn't own doesn't change.
func removeSecrets(ctx context.Context, c *cluster.Cluster, owner *v1beta1.ApiClient) error {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: owner.Namespace, Name: owner.EffectiveSecretName()}
	if err := c.Get(ctx, key, secret); err != nil {
		return cluster.DescribeError(err, "reading Secret "+key.String())
	}
	if !metav1.IsControlledBy(secret, owner) {
		return fmt.Errorf("credentials Secret %s %w by ApiClient %s/%s, so it is not changed", key, errNotOwned, owner.Namespace, owner.Name)
	}
	emptied := secret.DeepCopy()
	maps.DeleteFunc(emptied.Data, func(_ string, value []byte) bool { return clientsecret.WellFormed(string(value)) })
	patch := client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, emptied, patch, client.FieldOwner(gitops.FieldOwnerPlugin)); err != nil {
		return cluster.DescribeError(err, "changing Secret "+key.String())
	}
	return nil
}

var errNotOwned = errors.New("is not owned")

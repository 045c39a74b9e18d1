package change

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

const releaseUsage = `Release the client ID and the subjects that an ApiClient holds, so that another ApiClient can acquire
them. For a Realm, release those of all its ApiClients that no grant covers.

An ApiClient holds its client ID until it is deleted, even if no grant covers it any longer. After the
release, its secrets and tokens are rejected. If a grant covers it, and no other ApiClient acquires
the client ID within a minute, it acquires the client ID again.

What a restore has put back for the ApiClient is lost: secrets of the backup, its identity in tokens,
and the time of a revocation that its spec does not contain. If old tokens must stay rejected, run
"kubectl realmkeeper revoke" before the release.`

const releaseExamples = `  # Let another ApiClient have the client ID of this one
  kubectl realmkeeper release apiclient/payments -n old-apps

  # Free the client IDs of all ApiClients that have lost their grant
  kubectl realmkeeper release realm/acme`

func newReleaseCommand(streams output.Streams) *cobra.Command {
	o := newChangeOptions(streams)
	command := o.AboutObject(&cobra.Command{
		Use:     "release (apiclient/NAME | realm/NAME)",
		Short:   "Let another client have the client ID of a client",
		Long:    releaseUsage,
		Example: releaseExamples,
	}, o.release)
	o.AddTo(command)
	flags := command.Flags()
	flags.BoolVar(&o.Wait, "wait", true, "Wait until the operator has released what an ApiClient holds")
	flags.DurationVar(&o.Timeout, "timeout", time.Minute, "How long to wait")
	return command
}

func (o *changeOptions) release(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (output.Report, error) {
	r, at := newChanged(t, "released"), c.Clock.Next()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": t.Object.GetUID(), "annotations": map[string]string{v1beta1.ReleaseAnnotation: timestamp.Format(at)},
	}})
	if err != nil {
		return r, err
	}
	if err := c.Patch(ctx, t.Object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(gitops.FieldOwnerPlugin)); err != nil {
		return r, cluster.DescribeError(err, "changing "+t.String())
	}
	if t.Client == nil {
		r.Action = "will be released"
		r.Messages = append(r.Messages, fmt.Sprintf("The operator releases the client IDs and subjects that ApiClients without a grant acquired up to %s.", timestamp.Format(at)))
		return r, nil
	}
	if !o.Wait {
		r.Action = "will be released"
		r.Commands = []string{t.Command("explain")}
		return r, nil
	}
	err = o.Await(ctx, c, t, func() (string, bool, error) {
		done := t.Client.Status.LastReleaseTime
		return "Waiting for the operator", done != nil && !done.Time.Before(at), nil
	})
	if err != nil {
		return r, err
	}
	r.Messages = append(r.Messages, fmt.Sprintf("Another ApiClient can acquire client ID %s. If none does within a minute and a grant covers this one, it acquires it again.", t.Client.EffectiveClientID()))
	return r, nil
}

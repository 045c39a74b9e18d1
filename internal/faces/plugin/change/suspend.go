package change

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
)

const suspendUsage = `Suspend an ApiClient, or a Realm with all its clients. It gets no tokens, and the introspection and
verify endpoints reject its existing tokens. Nothing is deleted.

Resource servers that verify tokens offline accept existing tokens until these expire, unless they use
the status list of the realm.`

const suspendExamples = `  # Stop a client until it is resumed
  kubectl realmkeeper suspend apiclient/billing -n acme-apps

  # Stop every client of a realm, and wait until every token server has the change
  kubectl realmkeeper suspend realm/acme --wait`

const resumeExamples = `  # Let a suspended client get tokens again, and wait until it is Ready
  kubectl realmkeeper resume apiclient/billing -n acme-apps --wait`

func newSuspendCommand(streams output.Streams) *cobra.Command {
	return newSuspensionCommand(streams, true, &cobra.Command{
		Use: "suspend (apiclient/NAME | realm/NAME)", Short: "Stop a client or realm until it is resumed",
		Long: suspendUsage, Example: suspendExamples,
	})
}

func newResumeCommand(streams output.Streams) *cobra.Command {
	return newSuspensionCommand(streams, false, &cobra.Command{
		Use: "resume (apiclient/NAME | realm/NAME)", Short: "Let a suspended client or realm get tokens again",
		Long: "Resume a suspended ApiClient or Realm. It continues with the same credentials.", Example: resumeExamples,
	})
}

// newSuspensionCommand completes the command that sets spec.suspend to the given value.
func newSuspensionCommand(streams output.Streams, suspend bool, command *cobra.Command) *cobra.Command {
	o := newChangeOptions(streams)
	o.AboutObject(command, func(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (output.Report, error) {
		return o.setSuspended(ctx, c, t, suspend)
	})
	until := "every live token server has loaded the change"
	if !suspend {
		until += " and the object is Ready"
	}
	o.addChangeFlags(command, false, until)
	return command
}

func (o *changeOptions) setSuspended(ctx context.Context, c *cluster.Cluster, t *cluster.Target, suspend bool) (changed, error) {
	r, verb := newChanged(t, "resumed"), "resume"
	if suspend {
		r.Action, verb = "suspended", "suspend"
	}
	if suspended(t) == suspend {
		r.Messages = append(r.Messages, "It was "+r.Action+" already.")
		if !suspend {
			r.Messages[0] = "It was not suspended."
		}
	} else if err := o.set(ctx, c, t, suspend, "suspend"); err != nil {
		return r, err
	}
	if !o.Wait {
		r.Messages = append(r.Messages, "This command waits until every token server has the change:")
		r.Commands = []string{t.Command(verb) + " --wait"}
		return r, nil
	}
	err := o.Await(ctx, c, t, func() (string, bool, error) {
		state, ok, err := loaded(t)
		// A client without a grant gets no tokens either, so its suspension is effective.
		if suspend && err != nil && t.Condition(v1beta1.ConditionReady).Reason == string(v1beta1.ReasonSuspended) {
			return "", true, nil
		}
		if !ok || err != nil || suspend {
			return state, ok, err
		}
		return cluster.Ready(t)
	})
	r.Effective = err == nil
	return r, err
}

func suspended(t *cluster.Target) bool {
	if t.Realm != nil {
		return t.Realm.Spec.Suspend
	}
	return t.Client.Spec.Suspend
}

package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

// changeOptions are the flags of the subcommands that change an object.
type changeOptions struct {
	cluster.WaitOptions

	force bool
}

func newChangeOptions(streams output.Streams) changeOptions {
	return changeOptions{WaitOptions: cluster.WaitOptions{Options: cluster.NewOptions(streams)}}
}

// addChangeFlags adds the flags to a command. until completes the help text of --wait.
func (o *changeOptions) addChangeFlags(command *cobra.Command, wait bool, until string) {
	o.AddTo(command)
	flags := command.Flags()
	flags.BoolVar(&o.Wait, "wait", wait, "Wait until "+until)
	flags.DurationVar(&o.Timeout, "timeout", time.Minute, "How long to wait")
	flags.BoolVar(&o.force, "force", false, "Change the field even if a tool such as Argo CD sets it and would revert the change")
}

// changed is the report of a subcommand that changed an object.
type changed struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Action is what was or will be done, such as rotated, or will be rotated.
	Action string `json:"action"`
	// Effective is true if every live token server has loaded the change.
	Effective bool `json:"effective"`
	// Messages explain the effect of the change.
	Messages []string `json:"messages,omitempty"`
	// Commands are the next steps.
	Commands []string `json:"commands,omitempty"`
	// ExpirationTime is when the old secret expires after a rotation.
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`
}

func newChanged(t *cluster.Target, action string) changed {
	return changed{Kind: t.Kind, Namespace: t.Object.GetNamespace(), Name: t.Object.GetName(), Action: action}
}

func (r changed) Text(w *terminal.Writer) {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	w.Paragraph(0, terminal.Green, r.Kind+" "+name+" "+r.Action)
	for _, message := range r.Messages {
		w.Paragraph(2, terminal.Plain, message)
	}
	w.Commands(4, r.Commands)
}

var errManaged = errors.New("managed by another tool")

// checkManager returns an error if a tool sets the field and would revert a change.
func (o *changeOptions) checkManager(t *cluster.Target, field ...string) error {
	m, ok := gitops.ManagerOf(t.Object)
	path := make(fieldpath.Path, 0, len(field))
	for _, name := range field {
		path = append(path, fieldpath.PathElement{FieldName: &name})
	}
	if !ok || o.force || !m.Sets(t.Object, path) {
		return nil
	}
	return fmt.Errorf("%w: %s sets %s of %s and would revert the change; make the change in %s instead, or use --force",
		errManaged, m, path.String()[1:], t, m.Tool)
}

// set sets a field of the spec. The change fails if the object was deleted and created again in the
// meantime.
func (o *changeOptions) set(ctx context.Context, c *cluster.Cluster, t *cluster.Target, value any, field ...string) error {
	if err := o.checkManager(t, append([]string{"spec"}, field...)...); err != nil {
		return err
	}
	for _, name := range slices.Backward(field) {
		value = map[string]any{name: value}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": t.Object.GetUID()}, "spec": value})
	if err != nil {
		return err
	}
	err = c.Patch(ctx, t.Object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(gitops.FieldOwnerPlugin))
	if err != nil {
		return cluster.DescribeError(err, "changing "+t.String())
	}
	return nil
}

// loaded reports whether every live token server has loaded the latest change. It returns an error if
// the Programmed condition is False, for example because the object isn't Accepted.
func loaded(t *cluster.Target) (state string, ok bool, err error) {
	c := t.Condition(v1beta1.ConditionProgrammed)
	switch {
	case c == nil:
		return "Waiting for the operator to process the change", false, nil
	case c.Status == metav1.ConditionTrue:
		return "", true, nil
	case c.Status == metav1.ConditionFalse:
		return "", false, cluster.NotReady(t, c)
	}
	return "Waiting for every live token server to load the change", false, nil
}

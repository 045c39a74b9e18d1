package kubectlplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/terminal"
)

// finishReport is the report of restore --finish.
type finishReport struct {
	DryRun  bool             `json:"dryRun,omitempty"`
	Objects []finishedObject `json:"objects"`
}

// finishedObject is the result for a Realm or ApiClient with a restore record.
type finishedObject struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"` // of an ApiClient: namespace and name
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
}

// Results of restore --finish.
const (
	finishedSecrets    = "finished"
	finishedDiscarded  = "discarded"
	finishedWaiting    = "not adopted, kept"
	finishedUnreadable = "unreadable, kept"
	finishedFailed     = "failed"
)

var (
	errNotAdopted  = errors.New("the operator has not adopted everything")
	errNotFinished = errors.New("some objects were not finished")
)

// runFinish deletes the restore records, which ends the restored secrets. Restore records that the
// operator has not adopted stay unless --force is set, because their keys and secrets would be lost.
func (o *restoreOptions) runFinish(ctx context.Context) error {
	c, err := o.connect()
	if err != nil {
		return err
	}
	inst, err := c.installation(ctx, o.recordsNamespace, o.serviceURL)
	if err != nil {
		return err
	}
	return o.finishAll(ctx, c, inst.recordsNamespace)
}

func (o *restoreOptions) finishAll(ctx context.Context, c *cluster, namespace string) error {
	r := finishReport{DryRun: o.dryRun, Objects: []finishedObject{}}
	results := map[string]int{}
	err := c.eachRecord(ctx, namespace, record.KindRestore, func(secret *corev1.Secret) error {
		finished, err := o.finishOne(ctx, c, secret)
		if finished.Result != "" {
			results[finished.Result]++
			r.Objects = append(r.Objects, finished)
		}
		return err
	})
	slices.SortFunc(r.Objects, func(a, b finishedObject) int {
		return cmp.Or(strings.Compare(b.Kind, a.Kind), strings.Compare(a.Name, b.Name))
	})
	// After an error, the report shows what was done until then.
	if printed := o.print(r); err == nil {
		err = printed
	}
	switch waiting, failed := results[finishedWaiting], results[finishedFailed]; {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%w: %s; run the command again", errNotFinished, number(failed, "object"))
	case waiting > 0:
		return fmt.Errorf("%w: %s; wait until their condition Restored is True, or use --force to discard their keys and secrets", errNotAdopted, number(waiting, "object"))
	}
	return nil
}

// finishOne deletes a restore record. It keeps one that the operator has not adopted, because the keys,
// the identity, or the secrets in it are nowhere else in the cluster. The result is empty if the restore
// record belongs to another realm.
func (o *restoreOptions) finishOne(ctx context.Context, c *cluster, secret *corev1.Secret) (finishedObject, error) {
	finished := finishedObject{Kind: kindRealm, Name: secret.Annotations[v1alpha1.OwnerAnnotation], Result: finishedWaiting}
	if strings.Contains(finished.Name, "/") {
		finished.Kind = kindClient
	}
	body, err := record.ReadRestore(secret)
	state := restoreWaiting
	switch {
	case err != nil:
		finished.Reason = fmt.Sprintf("%v. To delete it, run %q.", err, record.DeleteCommand(secret))
		if o.realm != "" && o.realm != finished.Name {
			finished.Result = finishedUnreadable // its realm is unknown
			return finished, nil
		}
	case o.realm != "" && o.realm != realmOfRestore(body):
		return finishedObject{}, nil
	default:
		if state, err = c.restoreState(ctx, secret, body); err != nil {
			return finishedObject{}, err
		}
	}
	switch {
	case state == restoreRecorded:
		finished.Result = finishedSecrets
	case state == restoreImpossible:
		finished.Result, finished.Reason = finishedDiscarded, "Its object was deleted, or another ApiClient has its client ID."
	case o.force:
		finished.Result = finishedDiscarded
	default:
		return finished, nil
	}
	return o.deleteRestore(ctx, c, secret, finished)
}

// deleteRestore deletes a restore record and returns the result. A conflict fails only this object.
func (o *restoreOptions) deleteRestore(ctx context.Context, c *cluster, secret *corev1.Secret, finished finishedObject) (finishedObject, error) {
	options := []client.DeleteOption{client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}}
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	err := client.IgnoreNotFound(c.Delete(ctx, secret, options...))
	switch {
	case apierrors.IsConflict(err): // the operator has changed it
		finished.Result, finished.Reason = finishedFailed, err.Error()
	case err != nil:
		return finishedObject{}, fmt.Errorf("deleting the restore record of %s %s: %w", finished.Kind, finished.Name, err)
	}
	return finished, nil
}

func realmOfRestore(body record.Restore) string {
	if body.Client != nil {
		return body.Client.RealmName
	}
	return body.Realm.Name
}

func (r finishReport) text(w *terminal.Writer) {
	if len(r.Objects) == 0 {
		w.Paragraph(0, terminal.Plain, "There is no restore to finish.")
		return
	}
	finished := 0
	var rows []terminal.Row
	for _, o := range r.Objects {
		color := terminal.Plain
		switch o.Result {
		case finishedSecrets:
			finished++
		case finishedFailed:
			color = terminal.Red
		case finishedWaiting, finishedUnreadable:
			color = terminal.Yellow
		}
		rows = append(rows, terminal.Row{Color: color, Cells: []string{o.Kind, o.Name, o.Result}})
	}
	if r.DryRun {
		w.Paragraph(0, terminal.Bold, "Dry run, nothing was changed")
	}
	w.Table([]string{"KIND", "NAME", "RESULT"}, rows)
	for _, o := range r.Objects {
		if o.Reason != "" {
			w.Paragraph(2, terminal.Plain, o.Kind+" "+o.Name+": "+o.Reason)
		}
	}
	if finished > 0 && !r.DryRun {
		w.Paragraph(0, terminal.Plain, "The operator removes the restored secrets of these clients. Secrets in a credentials Secret or in a spec are still accepted.")
	}
}

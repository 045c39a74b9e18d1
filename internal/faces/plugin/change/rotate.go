package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

const rotateUsage = `Rotate the generated secret of an ApiClient or the signing key of a Realm, without downtime.

A new secret is delivered after every live token server accepts it. The old secret stays valid
for the overlap of the client, or until it is unused. A new signing key is published before it
signs. The old key stays published until the last token that it signed has expired.`

const rotateExamples = `  # Rotate a client secret, wait until it is delivered, and print when the old one expires
  kubectl realmkeeper rotate apiclient/billing -n acme-apps

  # Request a new signing key for a realm, without waiting until it is published
  kubectl realmkeeper rotate realm/acme --wait=false

  # Request new signing keys for all realms, for example after you have enabled encryption with a KMS
  kubectl realmkeeper rotate --all`

func newRotateCommand(streams output.Streams) *cobra.Command {
	o := newChangeOptions(streams)
	command := o.AboutObject(&cobra.Command{
		Use:     "rotate (apiclient/NAME | realm/NAME | --all)",
		Short:   "Rotate the secret of a client or the signing key of a realm",
		Long:    rotateUsage,
		Example: rotateExamples,
	}, func(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (output.Report, error) {
		if t.Realm != nil {
			return o.rotateRealm(ctx, c, t)
		}
		return o.rotateClient(ctx, c, t)
	})
	o.addChangeFlags(command, true, "the new secret is delivered or the new key is published")
	all := command.Flags().Bool("all", false, "Request new signing keys for all realms, without waiting")
	one := command.RunE
	command.Args = func(command *cobra.Command, args []string) error {
		if !*all {
			return cluster.ExactlyOneObject(command, args)
		}
		if len(args) > 0 {
			return fmt.Errorf("%w: --all rotates the keys of all realms; specify no object with it", output.ErrUsage)
		}
		return nil
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		if *all {
			return o.rotateAll(command.Context())
		}
		return one(command, args)
	}
	return command
}

// changedAll is the report of a subcommand that changed several objects.
type changedAll struct {
	Items []changed `json:"items"`
}

func (r changedAll) Text(w *terminal.Writer) {
	if len(r.Items) == 0 {
		w.Paragraph(0, terminal.Plain, "There are no realms.")
	}
	for _, item := range r.Items {
		item.Text(w)
	}
}

// rotateAll requests new signing keys for all realms. It continues after an error and reports it.
func (o *changeOptions) rotateAll(ctx context.Context) error {
	c, err := o.Connect()
	if err != nil {
		return err
	}
	realms := &v1beta1.RealmList{}
	if err := c.List(ctx, realms); err != nil {
		return cluster.DescribeError(err, "listing the realms")
	}
	after, failed := timestamp.Format(c.Clock.Next()), false
	r := changedAll{Items: []changed{}}
	for i := range realms.Items {
		t := &cluster.Target{Kind: cluster.KindRealm, Object: &realms.Items[i], Realm: &realms.Items[i]}
		item := newChanged(t, "will be rotated")
		if err := o.set(ctx, c, t, after, "signing", "rotationRequestTime"); err != nil {
			item.Action, item.Messages, failed = "was not changed", []string{err.Error()}, true
		}
		r.Items = append(r.Items, item)
	}
	if err := o.Print(r); err != nil {
		return err
	}
	if failed {
		return output.ErrReported
	}
	return nil
}

var errOverlap = errors.New("the previous rotation is not complete")

func (o *changeOptions) rotateClient(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (changed, error) {
	r := newChanged(t, "rotated")
	if err := checkGenerated(t); err != nil {
		return r, err
	}
	if err := o.checkRotatable(t); err != nil {
		return r, err
	}
	if o.Wait {
		if err := checkRotated(t); err != nil {
			return r, err
		}
	}
	old := map[string]bool{}
	for _, s := range t.Client.Status.Secrets() {
		old[s.Name] = true
	}
	if err := o.set(ctx, c, t, timestamp.Format(c.Clock.Next()), "secret", "generated", "rotation", "rotationRequestTime"); err != nil {
		return r, err
	}
	if !o.Wait {
		r.Action = "will be rotated"
		r.Commands = []string{t.Command("explain")}
		return r, nil
	}
	err := o.Await(ctx, c, t, func() (string, bool, error) { return delivered(t, old) })
	if err != nil {
		return r, err
	}
	r.Effective = true
	describeSecrets(&r, t.Client, old, c.Clock.Now())
	return r, nil
}

// checkRotatable returns an error if --wait is set and the Ready condition is False, because the
// rotation would not complete.
func (o *changeOptions) checkRotatable(t *cluster.Target) error {
	c := t.Condition(v1beta1.ConditionReady)
	if !o.Wait || c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return cluster.NotReady(t, c)
}

// checkRotated returns an error if an earlier rotation isn't complete, because the next one waits for it.
func checkRotated(t *cluster.Target) error {
	for _, s := range t.Client.Status.Secrets() {
		switch {
		case s.State == v1beta1.CredentialNext:
			return fmt.Errorf("%w: secret %s replaces the current one as soon as every live token server accepts it; follow it with %q, or request another rotation after it with --wait=false",
				errOverlap, s.Name, t.Command("explain"))
		case s.ExpirationTime != nil:
			return fmt.Errorf("%w: secret %s is valid until %s, and a rotation waits for that; try again then, or request it now with --wait=false. If the secret leaked, use %q",
				errOverlap, s.Name, timestamp.Format(s.ExpirationTime.Time), t.Command("revoke")+" --secret")
		}
	}
	return nil
}

// delivered reports whether a new secret is the current one.
func delivered(t *cluster.Target, old map[string]bool) (state string, ok bool, err error) {
	if c := t.Condition(v1beta1.ConditionAccepted); c != nil && c.Status == metav1.ConditionFalse {
		return "", false, cluster.NotReady(t, c)
	}
	state = "Waiting for a new secret"
	for _, s := range t.Client.Status.Secrets() {
		switch {
		case old[s.Name]:
		case s.State == v1beta1.CredentialCurrent:
			return "", true, nil
		case s.State == v1beta1.CredentialNext:
			state = "Waiting for every live token server to accept the new secret"
		}
	}
	return state, false, nil
}

// describeSecrets adds messages that say which secret is new and when the old one expires.
func describeSecrets(r *changed, c *v1beta1.ApiClient, old map[string]bool, now time.Time) {
	for _, s := range c.Status.Secrets() {
		switch {
		case !old[s.Name] && s.State == v1beta1.CredentialCurrent:
			r.Messages = append(r.Messages, fmt.Sprintf("Secret %s contains the new secret %s.", c.Status.SecretName, s.Name))
		case s.ExpirationTime != nil:
			r.ExpirationTime = &metav1.Time{Time: s.ExpirationTime.UTC()}
			message := fmt.Sprintf("The old secret %s expires at %s (%s).", s.Name, timestamp.Format(s.ExpirationTime.Time), terminal.Relative(s.ExpirationTime.Time, now))
			if end := c.GeneratedSecret().Rotation.ExpireWhenUnused; end != nil && end.After != nil {
				message += fmt.Sprintf(" It expires earlier if it is unused for %s.", end.After)
			}
			r.Messages = append(r.Messages, message)
		}
	}
	if r.ExpirationTime == nil {
		r.Messages = append(r.Messages, "The old secret has expired.")
	}
}

func (o *changeOptions) rotateRealm(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (changed, error) {
	r := newChanged(t, "rotated")
	if err := o.checkRotatable(t); err != nil {
		return r, err
	}
	old := map[string]bool{}
	for _, k := range t.Realm.Status.SigningKeys {
		old[k.KeyID] = true
		if k.State == v1beta1.SigningKeyPending && o.Wait {
			return r, fmt.Errorf("%w: key %s is published and does not sign yet; follow it with %q", errOverlap, k.KeyID, t.Command("explain"))
		}
	}
	if err := o.set(ctx, c, t, timestamp.Format(c.Clock.Next()), "signing", "rotationRequestTime"); err != nil {
		return r, err
	}
	if !o.Wait {
		r.Action = "will be rotated"
		r.Commands = []string{t.Command("explain")}
		return r, nil
	}
	published := ""
	err := o.Await(ctx, c, t, func() (string, bool, error) {
		if c := t.Condition(v1beta1.ConditionAccepted); c != nil && c.Status == metav1.ConditionFalse {
			return "", false, cluster.NotReady(t, c)
		}
		active := false
		for _, k := range t.Realm.Status.SigningKeys {
			if !old[k.KeyID] {
				published, active = k.KeyID, k.State == v1beta1.SigningKeyActive
			}
		}
		// The time of the next change is unset until every live token server publishes the key.
		return "Waiting for a new key to be published", published != "" && (active || t.Realm.Status.NextKeyTransitionTime != nil), nil
	})
	if err != nil {
		return r, err
	}
	r.Effective = true
	describeKeys(&r, t.Realm, published, c.Clock.Now())
	return r, nil
}

// describeKeys adds messages that say when the new key signs tokens and when the old key is removed.
func describeKeys(r *changed, realm *v1beta1.Realm, published string, now time.Time) {
	active := slices.ContainsFunc(realm.Status.SigningKeys, func(k v1beta1.SigningKeyStatus) bool {
		return k.KeyID == published && k.State == v1beta1.SigningKeyActive
	})
	if next := realm.Status.NextKeyTransitionTime; active || next == nil {
		r.Messages = append(r.Messages, fmt.Sprintf("The new key %s signs tokens now.", published))
	} else {
		r.Messages = append(r.Messages, fmt.Sprintf("The new key %s is published, and signs at %s (%s).", published, timestamp.Format(next.Time), terminal.Relative(next.Time, now)))
	}
	r.Messages = append(r.Messages, "The old key is removed when the last token that it signed has expired.")
	r.Commands = []string{"kubectl realmkeeper explain " + untrusted.Quote("realm/"+realm.Name)}
}

package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// manifest is an object as a report. Unlike other reports, it has no form for people.
type manifest struct{ *v1beta1.ApiClient }

func (manifest) Text(*terminal.Writer) {}

// MarshalJSON omits what kubectl omits.
func (m manifest) MarshalJSON() ([]byte, error) {
	c := m.DeepCopy()
	c.ManagedFields = nil
	c.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(cluster.KindClient)) // client-go clears it
	if c.ResourceVersion == "" {
		c.Status = v1beta1.ApiClientStatus{} // the defaults of an object that wasn't created
	}
	return json.Marshal(c)
}

// report shows the result. The secret is shown first, so that nothing can prevent it. c is nil if nothing was
// created.
func (o *createOptions) report(ctx context.Context, c *cluster.Cluster, t *cluster.Target, secret string, notes []string) error {
	if err := o.reportCreated(t, secret, notes); err != nil {
		return err
	}
	var notReady error
	if o.Wait {
		notReady = o.awaitCreated(ctx, c, t)
		if notReady != nil && o.Output == "" && !errors.Is(notReady, cluster.ErrNotReady) {
			return notReady
		}
	}
	if o.Output != "" {
		return errors.Join(o.Print(manifest{t.Client}), notReady)
	}
	if !o.Wait {
		return nil
	}
	w := terminal.NewWriter(o.Streams.Out)
	if notReady != nil {
		f := t.Findings()[0]
		w.Paragraph(0, f.Color(), t.String()+" is not Ready: "+f.Reason)
		f.Text(w)
		return errors.Join(w.Err(), output.ErrReported)
	}
	nextSteps(ctx, c, t, w)
	return w.Err()
}

// reportCreated shows that the object was created, and its secret.
func (o *createOptions) reportCreated(t *cluster.Target, secret string, notes []string) error {
	if o.Output != "" {
		for _, note := range notes {
			o.Progress("%s", note)
		}
		if secret != "" && o.secretFile == "" {
			return showSecret(o.Streams.ErrOut, secret)
		}
		return nil
	}
	w := terminal.NewWriter(o.Streams.Out)
	action := map[string]string{dryRunNone: "created", dryRunClient: "created (dry run)", dryRunServer: "created (server dry run)"}[o.dryRun]
	// The namespace is empty if the manifest can be applied to any namespace.
	w.Paragraph(0, terminal.Green, t.Kind+" "+strings.TrimPrefix(t.Name(), "/")+" "+action)
	switch {
	case secret == "":
	case o.secretFile != "":
		w.Paragraph(2, terminal.Plain, "The client secret is in the file "+o.secretFile+", and nowhere else.")
	default:
		w.Paragraph(2, terminal.Plain, "Client secret, which is shown only once:")
		w.Commands(4, []string{secret})
	}
	for _, note := range notes {
		w.Paragraph(2, terminal.Plain, note)
	}
	if o.dryRun == dryRunNone && !o.Wait {
		w.Paragraph(2, terminal.Plain, "See whether it is Ready, and what to do next:")
		w.Commands(4, []string{t.Command("explain")})
	}
	return w.Err()
}

// awaitCreated waits until the client is Ready. The error is ErrNotReady if the client isn't Ready for a reason
// that doesn't end by itself.
func (o *createOptions) awaitCreated(ctx context.Context, c *cluster.Cluster, t *cluster.Target) error {
	return o.Await(ctx, c, t, func() (string, bool, error) {
		if found := t.Condition(v1beta1.ConditionReady); found != nil && found.Status == metav1.ConditionFalse {
			// A realm that was just created isn't Ready yet either.
			if reason := v1beta1.ConditionReason(found.Reason); reason == v1beta1.ReasonRealmNotReady {
				return "Waiting until Realm " + t.Client.Spec.RealmRef.Name + " is Ready", false, nil
			}
		}
		return cluster.Ready(t)
	})
}

// nextSteps says how to get a token for a client that is Ready.
func nextSteps(ctx context.Context, c *cluster.Cluster, t *cluster.Target, w *terminal.Writer) {
	w.Paragraph(0, terminal.Green, t.String()+" is Ready")
	if t.Client.GeneratesSecret() {
		w.Paragraph(2, terminal.Plain, fmt.Sprintf("Secret %s contains its client ID, its client secret, and the URL of the token endpoint. Get a token with them:", t.Client.Status.SecretName))
		w.Commands(4, []string{"kubectl realmkeeper token " + untrusted.Quote(t.Client.Name) + " -n " + untrusted.Quote(t.Client.Namespace)})
		return
	}
	var commands []string
	curl := "curl --user " + untrusted.Quote(t.Client.Status.ClientID) + " --data grant_type=client_credentials " + untrusted.Quote(t.Client.Status.TokenEndpoint)
	if instance, err := c.ReadInstance(ctx); err == nil && instance.Status.CertificateAuthority != nil {
		// Only clients with a credentials Secret have the managed CA in it.
		commands = append(commands, "kubectl get configmap "+caBundle+" -n "+untrusted.Quote(instance.Status.SystemNamespace)+" -o 'jsonpath={.data.ca\\.crt}' > ca.crt")
		curl += " --cacert ca.crt"
	}
	w.Paragraph(2, terminal.Plain, "Get a token with its client ID and its secret, for which curl asks:")
	w.Commands(4, append(commands, curl))
}

// caBundle is the ConfigMap with the certificates of the managed CA, in the system namespace.
const caBundle = "realmkeeper-ca-bundle"

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/remedy"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

// kinds maps the names that users can enter for a kind, which are those of kubectl, to the kind.
var kinds = map[string]string{
	"apiclient": KindClient, "apiclients": KindClient, "apic": KindClient,
	"realm": KindRealm, "realms": KindRealm, "rlm": KindRealm,
}

// Kinds of objects.
const (
	KindClient = "ApiClient"
	KindRealm  = "Realm"
)

// Target is an object that the user named: an ApiClient or a Realm.
type Target struct {
	Kind   string
	Object client.Object
	// One of Client and Realm is the same object with its Go type. The other one is nil.
	Client *v1beta1.ApiClient // set if the object is an ApiClient
	Realm  *v1beta1.Realm     // set if the object is a Realm
	// Parent is the Realm of an ApiClient. It is nil if nothing needs it, or if it cannot be read.
	Parent *v1beta1.Realm
}

// parseTarget returns the object that an argument such as "apiclient/billing" names.
func parseTarget(argument, namespace string) (*Target, error) {
	kind, name, ok := strings.Cut(argument, "/")
	if !ok || name == "" || strings.Contains(name, "/") || kinds[strings.ToLower(kind)] == "" {
		return nil, fmt.Errorf("%w: %q is not an object; use apiclient/NAME or realm/NAME", output.ErrUsage, argument)
	}
	if kinds[strings.ToLower(kind)] == KindRealm {
		realm := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return &Target{Kind: KindRealm, Object: realm, Realm: realm}, nil
	}
	c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return &Target{Kind: KindClient, Object: c, Client: c}, nil
}

// AboutObject completes a command that has one object as its argument. The command passes the object
// to act and prints the report that act returns.
func (o *Options) AboutObject(command *cobra.Command, act func(ctx context.Context, c *Cluster, t *Target) (output.Report, error)) *cobra.Command {
	command.Args = ExactlyOneObject
	command.ValidArgsFunction = o.completeObjects(KindClient, KindRealm)
	command.RunE = func(command *cobra.Command, args []string) error {
		c, err := o.Connect()
		if err != nil {
			return err
		}
		t, err := c.Find(command.Context(), args[0])
		if err != nil {
			return err
		}
		r, err := act(command.Context(), c, t)
		if err != nil {
			return err
		}
		return o.Print(r)
	}
	return command
}

// Find reads the object that an argument names.
func (c *Cluster) Find(ctx context.Context, argument string) (*Target, error) {
	t, err := parseTarget(argument, c.Namespace)
	if err != nil {
		return nil, err
	}
	return t, c.read(ctx, t)
}

// ErrNotFound means that an object doesn't exist.
var ErrNotFound = errors.New("not found")

// read reads the latest version of the object from the API server.
func (c *Cluster) read(ctx context.Context, t *Target) error {
	err := c.Get(ctx, client.ObjectKeyFromObject(t.Object), t.Object)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name != "" {
		if t.Kind == KindRealm {
			return fmt.Errorf("%s %w; list the realms with \"kubectl get realms\"", t, ErrNotFound)
		}
		return fmt.Errorf("%s %w; list the clients with \"kubectl get apiclients -A\", and choose the namespace with -n", t, ErrNotFound)
	}
	if err != nil {
		return DescribeError(err, "reading "+t.String())
	}
	return nil
}

// String returns the kind and name, such as "ApiClient acme-apps/billing".
func (t *Target) String() string { return t.Kind + " " + t.Name() }

// Name returns the name, with the namespace if the object has one.
func (t *Target) Name() string {
	if t.Realm != nil {
		return t.Realm.Name
	}
	return t.Client.Namespace + "/" + t.Client.Name
}

// Command returns a command of the plugin for the object.
func (t *Target) Command(verb string) string {
	if t.Realm != nil {
		return "kubectl realmkeeper " + verb + " " + untrusted.Quote("realm/"+t.Realm.Name)
	}
	return "kubectl realmkeeper " + verb + " " + untrusted.Quote("apiclient/"+t.Client.Name) + " -n " + untrusted.Quote(t.Client.Namespace)
}

func (t *Target) conditions() []metav1.Condition {
	if t.Realm != nil {
		return t.Realm.Status.Conditions
	}
	return t.Client.Status.Conditions
}

// Condition returns a condition of the latest generation. It returns nil if the operator has not
// processed the latest change.
func (t *Target) Condition(kind v1beta1.ConditionType) *metav1.Condition {
	found := meta.FindStatusCondition(t.conditions(), string(kind))
	if found == nil || found.ObservedGeneration != t.Object.GetGeneration() {
		return nil
	}
	return found
}

func (t *Target) remedy(reason string) (remedy.Remedy, bool) {
	if t.Realm != nil {
		return remedy.ForRealm(t.Realm, v1beta1.ConditionReason(reason))
	}
	return remedy.ForClient(t.Client, func() *v1beta1.Realm { return t.Parent }, v1beta1.ConditionReason(reason))
}

// State summarizes the conditions in one word: Ready, or the reason why the object is not Ready.
func (t *Target) State() string {
	ready := t.Condition(v1beta1.ConditionReady)
	switch {
	case ready == nil, ready.Status == metav1.ConditionUnknown:
		return string(v1beta1.ReasonProgressing)
	case ready.Status == metav1.ConditionTrue:
		return string(v1beta1.ReasonReady)
	}
	return ready.Reason
}

// ManagedBy describes the tool that manages the object. It returns an empty string if there is none.
func (t *Target) ManagedBy() string {
	if m, ok := gitops.ManagerOf(t.Object); ok {
		return m.String()
	}
	return ""
}

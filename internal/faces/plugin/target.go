package plugin

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
	"github.com/realmkeeper/realmkeeper/internal/faces/remedy"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

// kinds maps the names that users can enter for a kind, which are those of kubectl, to the kind.
var kinds = map[string]string{
	"apiclient": kindClient, "apiclients": kindClient, "apic": kindClient,
	"realm": kindRealm, "realms": kindRealm, "rlm": kindRealm,
}

const (
	kindClient = "ApiClient"
	kindRealm  = "Realm"
)

// target is an object that the user named: an ApiClient or a Realm.
type target struct {
	kind   string
	object client.Object
	// One of client and realm is the same object with its Go type. The other one is nil.
	client *v1beta1.ApiClient // set if the object is an ApiClient
	realm  *v1beta1.Realm     // set if the object is a Realm
	// parent is the Realm of an ApiClient. It is nil if nothing needs it, or if it cannot be read.
	parent *v1beta1.Realm
}

// parseTarget returns the object that an argument such as "apiclient/billing" names.
func parseTarget(argument, namespace string) (*target, error) {
	kind, name, ok := strings.Cut(argument, "/")
	if !ok || name == "" || strings.Contains(name, "/") || kinds[strings.ToLower(kind)] == "" {
		return nil, fmt.Errorf("%w: %q is not an object; use apiclient/NAME or realm/NAME", errUsage, argument)
	}
	if kinds[strings.ToLower(kind)] == kindRealm {
		realm := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return &target{kind: kindRealm, object: realm, realm: realm}, nil
	}
	c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return &target{kind: kindClient, object: c, client: c}, nil
}

// aboutObject completes a command that has one object as its argument. The command passes the object
// to act and prints the report that act returns.
func (o *clusterOptions) aboutObject(command *cobra.Command, act func(ctx context.Context, c *cluster, t *target) (report, error)) *cobra.Command {
	command.Args = exactlyOneObject
	command.ValidArgsFunction = o.completeObjects(kindClient, kindRealm)
	command.RunE = func(command *cobra.Command, args []string) error {
		c, err := o.connect()
		if err != nil {
			return err
		}
		t, err := c.find(command.Context(), args[0])
		if err != nil {
			return err
		}
		r, err := act(command.Context(), c, t)
		if err != nil {
			return err
		}
		return o.print(r)
	}
	return command
}

// find reads the object that an argument names.
func (c *cluster) find(ctx context.Context, argument string) (*target, error) {
	t, err := parseTarget(argument, c.namespace)
	if err != nil {
		return nil, err
	}
	return t, c.read(ctx, t)
}

var errNotFound = errors.New("not found")

// read reads the latest version of the object from the API server.
func (c *cluster) read(ctx context.Context, t *target) error {
	err := c.Get(ctx, client.ObjectKeyFromObject(t.object), t.object)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name != "" {
		if t.kind == kindRealm {
			return fmt.Errorf("%s %w; list the realms with \"kubectl get realms\"", t, errNotFound)
		}
		return fmt.Errorf("%s %w; list the clients with \"kubectl get apiclients -A\", and choose the namespace with -n", t, errNotFound)
	}
	if err != nil {
		return describeError(err, "reading "+t.String())
	}
	return nil
}

// String returns the kind and name, such as "ApiClient acme-apps/billing".
func (t *target) String() string { return t.kind + " " + t.name() }

func (t *target) name() string {
	if t.realm != nil {
		return t.realm.Name
	}
	return t.client.Namespace + "/" + t.client.Name
}

// command returns a command of the plugin for the object.
func (t *target) command(verb string) string {
	if t.realm != nil {
		return "kubectl realmkeeper " + verb + " " + untrusted.Quote("realm/"+t.realm.Name)
	}
	return "kubectl realmkeeper " + verb + " " + untrusted.Quote("apiclient/"+t.client.Name) + " -n " + untrusted.Quote(t.client.Namespace)
}

func (t *target) conditions() []metav1.Condition {
	if t.realm != nil {
		return t.realm.Status.Conditions
	}
	return t.client.Status.Conditions
}

// condition returns a condition of the latest generation. It returns nil if the operator has not
// processed the latest change.
func (t *target) condition(kind v1beta1.ConditionType) *metav1.Condition {
	found := meta.FindStatusCondition(t.conditions(), string(kind))
	if found == nil || found.ObservedGeneration != t.object.GetGeneration() {
		return nil
	}
	return found
}

func (t *target) remedy(reason string) (remedy.Remedy, bool) {
	if t.realm != nil {
		return remedy.ForRealm(t.realm, v1beta1.ConditionReason(reason))
	}
	return remedy.ForClient(t.client, func() *v1beta1.Realm { return t.parent }, v1beta1.ConditionReason(reason))
}

// state summarizes the conditions in one word: Ready, or the reason why the object is not Ready.
func (t *target) state() string {
	ready := t.condition(v1beta1.ConditionReady)
	switch {
	case ready == nil, ready.Status == metav1.ConditionUnknown:
		return string(v1beta1.ReasonProgressing)
	case ready.Status == metav1.ConditionTrue:
		return string(v1beta1.ReasonReady)
	}
	return ready.Reason
}

// managedBy describes the tool that manages the object. It returns an empty string if there is none.
func (t *target) managedBy() string {
	if m, ok := gitops.ManagerOf(t.object); ok {
		return m.String()
	}
	return ""
}

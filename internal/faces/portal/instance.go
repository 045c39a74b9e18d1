package portal

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/remedy"
)

// instanceView contains the details of the Instance that the overview shows.
type instanceView struct {
	*v1beta1.Instance

	State State
	// Problems are the conditions that aren't good.
	Problems []conditionView
	Servers  []tokenServerView
}

// tokenServerView is a token server and the kind of its badge.
type tokenServerView struct {
	v1beta1.TokenServerStatus

	Kind string
}

// serverKinds are the kinds of badges by the state of a token server.
var serverKinds = map[v1beta1.TokenServerState]string{
	v1beta1.TokenServerCurrent: "good", v1beta1.TokenServerBehind: "busy", v1beta1.TokenServerStarting: "busy", v1beta1.TokenServerStale: "bad",
}

func viewInstance(i *v1beta1.Instance) *instanceView {
	find := func(r v1beta1.ConditionReason) (remedy.Remedy, bool) { return remedy.ForInstance(i, r) }
	view := &instanceView{Instance: i, State: stateOf(i.Status.Conditions, i.Generation)}
	view.Problems = slices.DeleteFunc(conditionsOf(i.Status.Conditions, find), func(c conditionView) bool {
		return c.Kind == "good" || c.Name == string(v1beta1.ConditionReconciling) // It repeats Ready.
	})
	for _, s := range i.Status.TokenServers {
		view.Servers = append(view.Servers, tokenServerView{s, serverKinds[s.State]})
	}
	return view
}

// Attention returns the state of the instance if it needs attention, and otherwise nil.
func (i *instanceView) Attention() *State {
	stale := slices.ContainsFunc(i.Servers, func(s tokenServerView) bool { return s.State == v1beta1.TokenServerStale })
	switch {
	case i.State.Name != StateReady:
		return &i.State
	case len(i.Problems) > 0:
		return &State{"Warning", "busy", i.Problems[0].Message}
	case stale:
		return &State{"Warning", "busy", "A token server is stale"}
	}
	return nil
}

// instance returns the Instance, or nil if there is none or the user isn't allowed to get it. The rest of the
// overview doesn't need it.
func (req *request) instance() (*instanceView, error) {
	found := &v1beta1.Instance{}
	err := req.api.Get(req.ctx(), client.ObjectKey{Name: v1beta1.InstanceName}, found)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // It is not shown.
	}
	if err != nil {
		return nil, err
	}
	return viewInstance(found), nil
}

package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
)

// maxNamed is the maximum number of objects that a problem names.
const maxNamed = 3

// problem is a reason why objects are not Ready or need attention, with its remedy.
type problem struct {
	// Warning is true if the objects work despite the problem.
	Warning bool   `json:"warning,omitempty"`
	Reason  string `json:"reason"`
	// Kind is empty for a problem of the installation.
	Kind string `json:"kind,omitempty"`
	// Objects contains the names of the first objects. Count is the number of all affected objects.
	Objects  []string `json:"objects,omitempty"`
	Count    int      `json:"count,omitempty"`
	Message  string   `json:"message"`
	Action   string   `json:"action,omitempty"`
	Commands []string `json:"commands,omitempty"`
}

// title names the problem and its objects.
func (p problem) title() string {
	if p.Kind == "" {
		return p.Reason
	}
	title := p.Reason + ": " + p.Kind + " " + strings.Join(p.Objects, ", ")
	if more := p.Count - len(p.Objects); more > 0 {
		title += fmt.Sprintf(", and %d more", more)
	}
	return title
}

// problems collects the problems of many objects. Objects with the same reason are one problem, so
// that the status of a large instance stays short.
type problems struct {
	byReason map[[2]string]*problem
}

func newProblems() *problems { return &problems{byReason: map[[2]string]*problem{}} }

// isProblem reports whether the reason of an object that isn't Ready is a problem of its own. Otherwise, the
// status only counts the object.
func isProblem(reason v1beta1.ConditionReason) bool {
	switch reason.Severity() {
	case v1beta1.SeverityNone, v1beta1.SeverityProgress, v1beta1.SeverityIntended, v1beta1.SeverityConsequence:
		return false
	}
	return true
}

// add adds the problems of an object.
func (p *problems) add(t *cluster.Target) {
	if isProblem(v1beta1.ConditionReason(t.State())) {
		p.record(t, t.Findings()[0], false)
	}
	for _, f := range t.Warnings() {
		p.record(t, f, true)
	}
}

func (p *problems) record(t *cluster.Target, f cluster.Finding, warning bool) {
	key := [2]string{t.Kind, f.Reason}
	known := p.byReason[key]
	if known == nil {
		known = &problem{
			Warning: warning, Reason: f.Reason, Kind: t.Kind, Message: cmp.Or(f.Message, f.Cause), Action: f.Action, Commands: []string{t.Command("explain")},
		}
		p.byReason[key] = known
	}
	known.Count++
	if len(known.Objects) < maxNamed {
		known.Objects = append(known.Objects, t.Name())
	}
}

// sorted returns the failures first, then the warnings. Realms come before clients.
func (p *problems) sorted() []problem {
	var result []problem
	for _, known := range p.byReason {
		result = append(result, *known)
	}
	slices.SortFunc(result, func(a, b problem) int {
		return cmp.Or(order(a.Warning)-order(b.Warning), order(a.Kind == cluster.KindClient)-order(b.Kind == cluster.KindClient), strings.Compare(a.Reason, b.Reason))
	})
	return result
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

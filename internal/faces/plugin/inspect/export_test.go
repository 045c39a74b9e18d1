package inspect

import (
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
)

// Problem is the exported form of a problem.
type Problem = problem

// ProblemsOf returns the problems of clients and realms.
func ProblemsOf(clients []*v1beta1.ApiClient, realms []*v1beta1.Realm) []Problem {
	p := newProblems()
	for _, c := range clients {
		p.add(&cluster.Target{Kind: cluster.KindClient, Object: c, Client: c})
	}
	for _, r := range realms {
		p.add(&cluster.Target{Kind: cluster.KindRealm, Object: r, Realm: r})
	}
	return p.sorted()
}

// Title returns the heading of a problem.
func Title(p Problem) string { return p.title() }

// PrintExplanation prints the report of explain about the client in the realm, which can be nil, or about the
// realm if the client is nil.
func PrintExplanation(out io.Writer, format string, c *v1beta1.ApiClient, realm *v1beta1.Realm, event corev1.Event) error {
	t := &cluster.Target{Kind: cluster.KindClient, Object: c, Client: c, Parent: realm}
	if c == nil {
		t = &cluster.Target{Kind: cluster.KindRealm, Object: realm, Realm: realm}
	}
	r := explanation{
		Findings: t.Findings(), title: t.String(), notes: []string{event.Message},
		Events: []eventReport{{Reason: event.Reason, Message: event.Message}},
	}
	if c == nil {
		r.Realm = newRealmReport(t)
	} else {
		r.Client = newClientReport(t)
		if realm != nil {
			r.Client.Exchanges = exchangesOf(t, nil)
		}
	}
	return printTo(out, format, r)
}

// PrintProblems prints the problems of the objects in the report of status.
func PrintProblems(out io.Writer, format string, c *v1beta1.ApiClient, realm *v1beta1.Realm) error {
	return printTo(out, format, &Status{Problems: ProblemsOf([]*v1beta1.ApiClient{c}, []*v1beta1.Realm{realm})})
}

func printTo(out io.Writer, format string, r output.Report) error {
	return output.Write(out, format, r)
}

// InstanceProblems returns the problems that the Instance shows.
func InstanceProblems(i *v1beta1.Instance) []Problem { return instanceProblems(i) }

// OperatorProblems returns the problem of an operator of which the given number of replicas is ready. Its
// leader Lease was last renewed at a time, which is zero if an operator leads.
func OperatorProblems(stopped, now time.Time, ready int32) []Problem {
	r := &Status{Operator: &workload{Ready: ready, Replicas: 1}, stopped: stopped, now: now}
	return r.operatorProblems()
}

// PrintInstance prints the Instance in the report of status.
func PrintInstance(out io.Writer, format string, i *v1beta1.Instance) error {
	return printTo(out, format, &Status{Instance: &i.Status, Problems: instanceProblems(i)})
}

package kubectlplugin

import (
	"net/http"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// ParseAge exports parseAge.
var ParseAge = parseAge

// NextSecondAfter returns the time that the plugin writes to a spec after it has received the
// response.
func NextSecondAfter(response *http.Response) (time.Time, error) {
	clock := &serverClock{}
	_, err := clock.observe(response, nil)
	return clock.next(), err
}

// Problem is the exported form of a problem.
type Problem = problem

// ProblemsOf returns the problems of clients and realms.
func ProblemsOf(clients []*v1alpha1.ApiClient, realms []*v1alpha1.Realm) []Problem {
	p := newProblems()
	for _, c := range clients {
		p.add(&target{kind: kindClient, object: c, client: c})
	}
	for _, r := range realms {
		p.add(&target{kind: kindRealm, object: r, realm: r})
	}
	return p.sorted()
}

// Title returns the heading of a problem.
func Title(p Problem) string { return p.title() }

package simulation

import (
	"slices"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// The actions of searches. Each can be taken once, except for times.

func exists(name string) func(*world) bool {
	return func(w *world) bool {
		_, err := w.api.store.Get(clientResource, types.NamespacedName{Namespace: team, Name: name})
		return err == nil
	}
}

// once returns an action that can be taken once.
func once(a action) action {
	a.times = 1
	return a
}

func suspends(name string) action {
	return action{name: "a user suspends " + name, times: 1, possible: exists(name), do: func(w *world) { w.edit(name, true, "spec", "suspend") }}
}

func resumes(name string) action {
	return action{name: "a user resumes " + name, times: 1, possible: exists(name), do: func(w *world) { w.edit(name, nil, "spec", "suspend") }}
}

// givesSecret gives a client without a secret a generated one.
func givesSecret(name string) action {
	return action{name: "a user gives a secret to " + name, times: 1, possible: exists(name), do: func(w *world) { w.giveSecret(name) }}
}

func rotates(name string) action {
	return action{name: "a user requests a new secret of " + name, times: 1, possible: exists(name), do: func(w *world) { w.rotateNow(name) }}
}

func creates(name string) action {
	missing := func(w *world) bool { return !exists(name)(w) }
	return action{name: "a user creates " + name, times: 1, possible: missing, do: func(w *world) { w.createClient(name) }}
}

func deletes(name string) action {
	return action{name: "a user deletes " + name, times: 1, possible: exists(name), do: func(w *world) { w.deleteClient(name) }}
}

// claims creates a client with the client ID of billing.
func claims(name string) action {
	missing := func(w *world) bool { return !exists(name)(w) }
	return action{name: "a user creates " + name + " with the client ID of billing", times: 1, possible: missing, do: func(w *world) { w.createClientWithID(name, team+".billing") }}
}

func releases(name string) action {
	return action{name: "a user releases the client ID of " + name, times: 1, possible: exists(name), do: func(w *world) {
		w.edit(name, time.Now().UTC().Format(time.RFC3339), "metadata", "annotations", v1beta1.ReleaseAnnotation)
	}}
}

func losesRecord(name string) action {
	return action{name: "a user deletes the record of " + name, times: 1, possible: exists(name), do: func(w *world) { w.loseRecord(name) }}
}

func revokes(name string) action {
	return action{name: "a user deletes the Secret of " + name, times: 1, do: func(w *world) { w.deleteSecret(name) }}
}

func overwrites(name string) action {
	return action{name: "a user overwrites the Secret of " + name, times: 1, do: func(w *world) { w.overwriteSecret(name) }}
}

var rotatesKey = action{name: "a user requests a new signing key", times: 1, do: func(w *world) { w.rotateKey() }}

// createsRealm creates the Realm of all ApiClients.
var createsRealm = action{name: "a user creates the Realm", times: 1, do: (*world).createRealm}

// passes lets a time pass.
func passes(d time.Duration, times int) action {
	return action{name: d.String() + " pass", times: times, do: func(w *world) { w.sleep(d) }}
}

// moves kills operator 1 and makes operator 2 the leader. Requests that operator 1 has sent still land.
var moves = action{
	name: "operator 1 dies and operator 2 leads", times: 1,
	possible: func(w *world) bool { return !w.operators[0].dead },
	do: func(w *world) {
		w.kill(w.operators[0].process)
		w.operators[1].lead()
	},
}

// leadsToo makes operator 2 lead while operator 1 hasn't noticed that its time is over.
var leadsToo = action{
	name: "operator 2 leads, too", times: 1,
	possible: func(w *world) bool { return !w.operators[1].leads },
	do:       func(w *world) { w.operators[1].lead() },
}

// restarts ends server 1 and starts it again. Without saved records, it needs the API server.
var restarts = action{
	name: "server 1 dies and starts again", times: 1,
	do: func(w *world) {
		w.kill(w.servers[0].process)
		w.startServer(w.servers[0].name)
	},
}

// stops makes a watch cache of the API server stop.
var stops = action{
	name: "the API server's watch cache of Secrets stops", times: 1,
	do: func(w *world) { w.api.stall(secretResource) },
}

// joins starts a third token server.
var joins = action{name: "server 3 starts", times: 1, do: func(w *world) { w.startServer("server 3") }}

// joinsPrevious starts a token server with the previous program.
var joinsPrevious = action{name: "server 4 starts with the previous program", times: 1, do: func(w *world) { w.startServer("server 4").previous = true }}

func restricts(name string) action {
	return action{name: "a user restricts " + name + " in a way that only the new program knows", times: 1, possible: exists(name), do: func(w *world) { w.restrict(name) }}
}

// ages means that server 2 runs an older program, which can't read what is written from now on.
var ages = action{name: "the operator writes records that server 2 cannot read", times: 1, do: func(w *world) { w.servers[1].old = true }}

// outage makes the API server unavailable for more than five minutes. The leader exits, and the standby
// leads when the API server is back.
var outage = action{
	name: "the API server is down for 310s, and operator 2 leads", times: 1,
	possible: moves.possible,
	do: func(w *world) {
		w.api.setDown(true)
		w.kill(w.operators[0].process)
		w.sleep(310 * time.Second)
		w.api.setDown(false)
		for _, s := range w.servers {
			s.renewed = time.Now() // It couldn't renew its Lease.
		}
		synctest.Wait()
		w.operators[1].lead()
	},
}

// differentClocks are clocks that differ as much as they may.
var differentClocks = map[string]time.Duration{"operator 1": -operatorSkew, "operator 2": operatorSkew, "server 2": serverSkew, apiName: -serverSkew}

// nothing lags or is held.
func nothing(*stream) bool    { return false }
func noRequest(*request) bool { return false }

// watches returns a filter of watches.
func watches(of, what string) func(*stream) bool {
	return func(s *stream) bool { return s.owner.name == of && s.what == what }
}

// writes returns a filter of the requests that write a resource in a namespace.
func writes(resource, namespace string, of ...string) func(*request) bool {
	return func(r *request) bool {
		return r.resource.Resource == resource && r.name.Namespace == namespace && !r.reads() && slices.Contains(of, r.from.name)
	}
}

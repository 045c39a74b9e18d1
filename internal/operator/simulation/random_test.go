package simulation

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
)

// runsPerSecond is roughly the number of random runs in a second. With the race detector, a run takes five
// times as long.
const runsPerSecond = 3

// TestRandomRuns takes random steps with several clients, ends all faults, and checks that everything is as the
// specs say. In contrast to a search, it has all faults at the same time. rapid shrinks a run that
// fails, and prints how to repeat it.
func TestRandomRuns(t *testing.T) {
	start, begin := settled(t), time.Now()
	unseeded := flag.Lookup("rapid.seed").Value.String() == "0"
	if *exploreTime < longExploration && unseeded {
		must(flag.Set("rapid.seed", "1")) // Each short test takes the same steps, so it doesn't fail by chance.
	}
	batch := *exploreTime
	if batch >= longExploration {
		batch = time.Minute
	}
	must(flag.Set("rapid.checks", strconv.Itoa(int(batch.Seconds()*runsPerSecond))))
	steps, tokens := 0, 0
	t.Cleanup(func() {
		if !t.Failed() && (steps == 0 || tokens == 0) {
			t.Errorf("the runs are empty: %d steps were taken, and %d tokens issued", steps, tokens)
		}
	})
	run := func(rt *rapid.T) {
		saved := memoryDir(t.TempDir)
		defer os.RemoveAll(saved)
		rapid.SyncTest(rt, func(rt *rapid.T) {
			m := newMachine()
			inWorld(start, m.scope(rt), saved, func(w *world) {
				m.world = w
				rt.Repeat(m.actions())
				steps += m.steps
				if w.violation == nil {
					m.heal()
				}
				tokens += w.history.indexes.total
				if w.violation != nil {
					rt.Fatalf("%v\n%s", w.violation, w.text())
				}
			})
		})
	}
	rapid.Check(t, run)
	for *exploreTime >= longExploration && unseeded && time.Since(begin) < *exploreTime {
		rapid.Check(t, run)
	}
}

// memoryDir returns a new directory for saved records, which token servers keep in memory.
func memoryDir(otherwise func() string) string {
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		return otherwise()
	}
	dir, err := os.MkdirTemp(memory, "simulation")
	must(err)
	return dir
}

// machine is the state of the faults in a random run. Each is switched on and off.
type machine struct {
	world   *world
	lagging map[string]bool // watches that deliver nothing
	holding map[string]bool // writes in flight, by sender and resource
	cut     map[string]bool // processes that the network separates from the API server
	servers int             // that were started under a new name
	steps   int
}

func newMachine() *machine {
	return &machine{lagging: map[string]bool{}, holding: map[string]bool{}, cut: map[string]bool{}}
}

func (m *machine) scope(rt *rapid.T) scope {
	clocks := map[string]time.Duration{}
	for _, name := range []string{"operator 1", "operator 2", "server 1", "server 2", apiName} {
		skew := serverSkew
		if strings.HasPrefix(name, "operator") {
			skew = operatorSkew
		}
		clocks[name] = skew * time.Duration(rapid.IntRange(-1, 1).Draw(rt, "clock of "+name))
	}
	return scope{
		clocks: clocks,
		lags:   func(s *stream) bool { return m.lagging[s.String()] || m.cut[s.owner.name] || s.owner.paused },
		held: func(r *request) bool {
			return m.cut[r.from.name] || r.from.paused || !r.reads() && m.holding[r.from.name+" "+r.resource.Resource]
		},
	}
}

// toggle switches a fault on or off.
func (m *machine) toggle(what string, faults map[string]bool, key string) {
	faults[key] = !faults[key]
	m.do(fmt.Sprintf("%s: %s %t", key, what, faults[key]), func(*world) {})
}

// maxSteps is the number of automatic steps after which a run takes no further ones.
const maxSteps = 2000

// do takes a step.
func (m *machine) do(what string, step func(*world)) {
	w := m.world
	if w.violation != nil || w.steps > maxSteps {
		return
	}
	w.note("* %s", what)
	m.steps++
	step(w)
	w.settle()
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"watch": func(rt *rapid.T) {
			var names []string
			for _, s := range m.world.openStreams() {
				names = append(names, s.String())
			}
			m.toggle("lags", m.lagging, sampled(rt, names))
		},
		"write": func(rt *rapid.T) {
			process, resource := sampled(rt, m.processes()), sampled(rt, []string{"secrets", "apiclients", "leases"})
			m.toggle("is in flight for long", m.holding, process+" "+resource)
		},
		"network":  func(rt *rapid.T) { m.toggle("is cut off", m.cut, sampled(rt, m.processes())) },
		"choice":   m.choice,
		"choices":  m.choice,
		"time":     m.time,
		"realm":    m.realm,
		"lists":    m.lists,
		"operator": m.operator,
		"server":   m.server,
		"user":     m.user,
		"users":    m.user,
		"API server": func(*rapid.T) {
			if stalled := m.world.api.stalled; len(stalled) > 0 {
				m.do("the API server's watch cache of Secrets continues", func(*world) { delete(stalled, secretResource) })
			} else {
				m.do(stops.name, stops.do)
			}
		},
	}
}

func sampled(rt *rapid.T, from []string) string {
	if len(from) == 0 {
		rt.Skip("nothing to choose from")
	}
	return rapid.SampledFrom(from).Draw(rt, "which")
}

func (m *machine) processes() []string {
	var names []string
	for _, o := range m.world.operators {
		if !o.dead {
			names = append(names, o.name)
		}
	}
	for _, s := range m.world.servers {
		if !s.dead {
			names = append(names, s.name)
		}
	}
	return names
}

// choice delivers an event or lets a request land that waits for it.
func (m *machine) choice(rt *rapid.T) {
	var names []string
	for _, c := range m.world.choices() {
		names = append(names, c.name)
	}
	name := sampled(rt, names)
	if m.world.violation == nil {
		m.world.take(name)
	}
}

func (m *machine) time(rt *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Second, 6 * time.Second, 31 * time.Second, overlap}).Draw(rt, "time")
	if rapid.IntRange(0, 7).Draw(rt, "long") == 7 { // It takes as long as a hundred other steps.
		d = retirement
	}
	m.do(d.String()+" pass", func(w *world) { w.sleep(d) })
}

func (m *machine) operator(rt *rapid.T) {
	w := m.world
	var alive []string
	for _, o := range w.operators {
		if !o.dead {
			alive = append(alive, o.name)
		}
	}
	name := sampled(rt, alive)
	o := w.operators[slices.IndexFunc(w.operators, func(o *operator) bool { return !o.dead && o.name == name })]
	switch rapid.SampledFrom([]string{"dies", "leads", "is paused"}).Draw(rt, "what") {
	case "dies":
		m.do(o.name+" dies and starts again", func(w *world) {
			led := o.leads
			w.kill(o.process)
			w.startOperator(o.name)
			if led {
				w.elect()
			}
		})
	case "leads":
		if o.leads {
			rt.Skip("it leads already")
		}
		m.do(o.name+" leads, too, because the leader has not noticed that its time is over", func(*world) { o.lead() })
	case "is paused":
		o.paused = !o.paused
		m.do(fmt.Sprintf("%s is paused: %t", o.name, o.paused), func(*world) {})
	}
}

// elect makes an operator the leader if none is.
func (w *world) elect() {
	alive := slices.DeleteFunc(slices.Clone(w.operators), func(o *operator) bool { return o.dead })
	if !slices.ContainsFunc(alive, func(o *operator) bool { return o.leads }) {
		w.note("  %s is elected", alive[0].name)
		alive[0].lead()
	}
}

func (m *machine) server(rt *rapid.T) {
	w := m.world
	var alive []string
	for _, s := range w.servers {
		if !s.dead && !s.leaving {
			alive = append(alive, s.name)
		}
	}
	what := rapid.SampledFrom([]string{"restarts", "joins", "leaves", "is old", "is rolled back"}).Draw(rt, "what")
	if what == "joins" || what == "is rolled back" {
		if len(alive) >= 3 {
			rt.Skip("there are enough")
		}
		m.servers++
		name := fmt.Sprintf("server %d", 2+m.servers)
		previous := what != "joins"
		m.do(fmt.Sprintf("%s starts, with the previous program: %t", name, previous), func(w *world) { w.startServer(name).previous = previous })
		return
	}
	name := sampled(rt, alive)
	s := w.servers[slices.IndexFunc(w.servers, func(s *server) bool { return !s.dead && !s.leaving && s.name == name })]
	if what == "is old" {
		m.do("the operator writes records that "+s.name+" cannot read", func(*world) { s.old = true })
		return
	}
	if what == "leaves" {
		m.do(s.name+" is stopped", func(*world) {
			s.leaving = true
			s.cancel()
		})
		return
	}
	m.do(s.name+" dies and starts again with the records that it has saved", func(w *world) {
		w.kill(s.process)
		w.startServer(s.name)
	})
}

// realm changes the Realm.
func (m *machine) realm(rt *rapid.T) {
	key := types.NamespacedName{Name: realmName}
	switch rapid.SampledFrom([]string{"suspends", "resumes", "rotates", "lifetime"}).Draw(rt, "what") {
	case "suspends":
		m.do("a user suspends the Realm", func(w *world) { w.change(realmResource, key, true, "spec", "suspend") })
	case "resumes":
		m.do("a user resumes the Realm", func(w *world) { w.change(realmResource, key, nil, "spec", "suspend") })
	case "rotates":
		m.do(rotatesKey.name, rotatesKey.do)
	case "lifetime":
		a := setsLifetime(rapid.SampledFrom([]time.Duration{shortLifetime, tokenLifetime, longLifetime}).Draw(rt, "lifetime"))
		m.do(a.name, a.do)
	}
}

// lists changes the status lists.
func (m *machine) lists(rt *rapid.T) {
	switch rapid.SampledFrom([]string{"enables", "disables", "revokes", "lowers", "restores", "rollback", "backup"}).Draw(rt, "what") {
	case "enables":
		m.do("a user enables the status lists", func(w *world) { w.setLists(true) })
	case "disables":
		m.do("a user disables the status lists", func(w *world) { w.setLists(false) })
	case "revokes":
		m.do(revokesRealmTokens.name, revokesRealmTokens.do)
	case "lowers":
		m.do(lowersRealmTime.name, lowersRealmTime.do)
	case "restores":
		m.do(restoresRealm.name, restoresRealm.do)
	case "rollback":
		if rollsBack.possible(m.world) {
			m.do(rollsBack.name, rollsBack.do)
		}
	case "backup":
		m.do(saves.name, saves.do)
	}
}

func (m *machine) user(rt *rapid.T) {
	name := rapid.SampledFrom([]string{"billing", "orders"}).Draw(rt, "client")
	_, err := m.world.api.store.Get(clientResource, types.NamespacedName{Namespace: team, Name: name})
	if apierrors.IsNotFound(err) {
		create := rapid.SampledFrom([]action{creates(name), claims("orders")}).Draw(rt, "create")
		if create.possible(m.world) {
			m.do(create.name, create.do)
		}
		return
	}
	edits := map[string]func(*world){
		"suspends":                 func(w *world) { w.edit(name, true, "spec", "suspend") },
		"resumes":                  func(w *world) { w.edit(name, nil, "spec", "suspend") },
		"requests a secret of":     func(w *world) { w.rotateNow(name) },
		"removes a scope of":       func(w *world) { w.edit(name, []any{"read"}, "spec", "scopes") },
		"adds a scope to":          func(w *world) { w.edit(name, []any{"read", "write"}, "spec", "scopes") },
		"takes the secret from":    func(w *world) { w.takeSecret(name) },
		"gives a secret to":        func(w *world) { w.giveSecret(name) },
		"deletes the Secret of":    func(w *world) { w.deleteSecret(name) },
		"overwrites the Secret of": func(w *world) { w.overwriteSecret(name) },
		"revokes the tokens of":    func(w *world) { w.revokeTokens(name, time.Now()) },
		"will revoke those of":     revokesLater(name).do,
		"lowers the time of": func(w *world) {
			w.lowerTime(clientResource, types.NamespacedName{Namespace: team, Name: name}, time.Minute)
		},
		"removes the time of":    removesTime(name).do,
		"shortens the tokens of": func(w *world) { w.edit(name, shortLifetime.String(), "spec", "tokenLifetime") },
		"releases the client ID": releases(name).do,
		"deletes the record of":  losesRecord(name).do,
		"restricts":              restricts(name).do,
		"deletes":                func(w *world) { w.deleteClient(name) },
	}
	edit := rapid.SampledFrom(slices.Sorted(keysOf(edits))).Draw(rt, "edit")
	m.do("a user "+edit+" "+name, edits[edit])
}

// heal ends all faults and checks that every client is as its spec says (L2, L4, L5).
func (m *machine) heal() {
	m.world.steps = 0
	clear(m.lagging)
	clear(m.holding)
	clear(m.cut)
	m.do("all faults end", func(w *world) {
		clear(w.api.stalled)
		for _, o := range w.operators {
			o.paused = false
		}
		for _, o := range w.operators[:len(w.operators)-1] {
			if o.leads && !o.dead && slices.ContainsFunc(w.operators, func(other *operator) bool { return other != o && other.leads && !other.dead }) {
				w.note("  %s notices that another one leads, and exits", o.name)
				w.kill(o.process)
			}
		}
		for _, s := range w.servers {
			if (s.old || s.previous) && !s.dead {
				w.note("  %s gets the operator's program", s.name)
				w.kill(s.process)
			}
		}
		w.elect()
		for len(w.live()) < 2 && len(w.servers) < 20 {
			m.servers++
			w.startServer(fmt.Sprintf("server %d", 2+m.servers))
			synctest.Wait()
			w.settle()
		}
	})
	m.world.steps = 0 // The writes that were held up can have used up the limit.
	for range 8 {
		m.do("a minute passes", func(w *world) { w.sleep(time.Minute) })
	}
	if slices.ContainsFunc(clientNames, m.world.waitsForIndex) {
		m.do("indexes are released", func(w *world) { w.sleep(2 * (retirement + w.history.longestLifetime())) })
	}
	if m.world.violation == nil {
		m.checkResult()
		m.world.history.indexes.checkSettled(m.world)
	}
}

func (m *machine) checkResult() {
	w := m.world
	w.api.store.CollectGarbage()
	realm, err := w.api.store.Get(realmResource, types.NamespacedName{Name: realmName})
	must(err)
	disabled, _, _ := unstructured.NestedBool(realm.Object, "spec", "suspend")
	clients, _ := w.api.store.List(clientResource, memory.Selection{})
	for _, object := range clients {
		name := object.GetName()
		suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
		want, id := "Ready", w.history.client(nameOf(object)).id
		if w.history.holderOf(id) != object.GetUID() {
			if w.readyReason(name) == want {
				w.violate(fmt.Errorf("L2: %s is Ready, although another client holds its client ID", name))
			}
			continue
		}
		switch {
		case suspended:
			want = "Suspended"
		case disabled:
			want = "RealmSuspended"
		}
		if got := w.readyReason(name); got != want {
			w.violate(fmt.Errorf("L2: the reason of Ready of %s is %q, want %q", name, got, want))
		}
		if _, hasSecret, _ := unstructured.NestedMap(object.Object, "spec", "secret"); !hasSecret {
			continue
		}
		secret, err := w.api.store.Get(secretResource, types.NamespacedName{Namespace: team, Name: name})
		if err != nil {
			w.violate(fmt.Errorf("L2: %s has no credentials Secret: %w", name, err))
			continue
		}
		value := string(asSecret(secret).Data["client_secret"])
		for _, s := range w.live() {
			if s.accepts(realmName, id, value) == (suspended || disabled) {
				w.violate(fmt.Errorf("L2: %s accepts the client secret of %s: %t", s.name, name, suspended || disabled))
			}
		}
	}
}

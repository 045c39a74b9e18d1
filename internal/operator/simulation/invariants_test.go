package simulation

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// history is what has happened so far, as far as the invariants depend on it: what users have asked for,
// which client secrets have been readable, and what servers have served. It is derived from the events of the
// store and from the servers' registries, without the product's rules.
type history struct {
	revision int64
	edits    bool          // a user is writing
	skew     time.Duration // the greatest difference of two clocks
	specs    map[types.UID][]spec
	lifted   map[types.UID]int64 // the generation up to which restrictions have been lifted in accordance with the specs
	clients  map[types.NamespacedName]*clientHistory
	realms   map[string]record.Realm      // by record
	holders  map[types.UID]types.UID      // of records, by the UID of the Secret
	keys     map[string]*keyHistory       // by key ID
	served   map[string]map[string]string // by name of the server and record: the acknowledged version
	// restricted contains the versions of client records with the restriction of restrict.
	restricted map[string]bool
	indexes    *indexHistory
}

// spec is what a user has asked for.
type spec struct {
	generation int64
	suspended  bool
	generates  bool
	scopes     []string
	valid      time.Time // tokensValidAfterTime
}

// clientHistory is the history of an ApiClient.
type clientHistory struct {
	uid    types.UID
	id     string // the client ID that it wants
	values []*value
	record *record.Client // the latest; nil if there is none
	// released means that a user has released its client ID, and lost is the revision at which its record was deleted.
	released bool
	lost     int64
	// restricted is the revision at which restrict has changed its record.
	restricted int64
}

// keyHistory is the history of a signing key.
type keyHistory struct {
	name      string    // short, and the same in each run
	until     time.Time // when the last token expires that a server could sign with it
	published map[*server]bool
}

// value is a client secret that was readable in a credentials Secret.
type value struct {
	text     string
	first    bool      // no other value was valid when it was delivered
	current  bool      // the Secret contains it
	replaced time.Time // when the Secret ceased to contain it
	revoked  bool      // by a user
	accepted map[*server]bool
}

// overlap is that of all clients in the model.
const overlap = 2 * time.Minute

func newHistory() *history {
	return &history{
		specs: map[types.UID][]spec{}, lifted: map[types.UID]int64{}, clients: map[types.NamespacedName]*clientHistory{},
		realms: map[string]record.Realm{}, holders: map[types.UID]types.UID{}, keys: map[string]*keyHistory{}, served: map[string]map[string]string{},
		restricted: map[string]bool{}, indexes: newIndexHistory(),
	}
}

// begin reads the start state.
func (h *history) begin(w *world) {
	objects := w.api.store.Objects()
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		// An ApiClient comes before its Secrets, and a client gets an index before its record has it.
		return cmp.Or(strings.Compare(a.GetKind(), b.GetKind()), strings.Compare(b.GetLabels()[v1beta1.RecordLabel], a.GetLabels()[v1beta1.RecordLabel]))
	})
	h.revision = w.revision()
	for _, object := range objects {
		h.event(w, memory.Event{Type: watch.Added, Object: object, Revision: h.revision})
	}
	if len(w.scope.clocks) > 0 {
		h.skew = 2 * operatorSkew
	}
}

// client returns the history of an ApiClient.
func (h *history) client(name types.NamespacedName) *clientHistory {
	if h.clients[name] == nil {
		h.clients[name] = &clientHistory{}
	}
	return h.clients[name]
}

// observe checks all invariants in the present state, after it has read what has happened.
func (h *history) observe(w *world) {
	events, _, err := w.api.store.Since(h.revision)
	must(err)
	for _, e := range events {
		h.revision = e.Revision
		h.event(w, e)
	}
	for _, s := range w.servers {
		if !s.answers() {
			continue
		}
		for _, name := range sortedKeys(h.clients) {
			h.checkSecrets(w, s, name)
		}
		h.checkRestart(w, s)
	}
	h.checkKeys(w)
	h.checkAcknowledgements(w)
	h.indexes.check(w)
}

func (h *history) event(w *world, e memory.Event) {
	deleted := e.Type == watch.Deleted
	name := nameOf(e.Object)
	switch {
	case e.Object.GetKind() == "ApiClient" && deleted:
		delete(h.clients, name)
	case e.Object.GetKind() == "ApiClient":
		h.clientEvent(w, e.Before, e.Object)
	case e.Object.GetKind() == "Realm" && !deleted:
		h.realmSpec(e.Object)
	case e.Object.GetKind() != "Secret":
	case name.Namespace == recordsNamespace:
		h.recordEvent(w, asSecret(e.Object), e.Revision, deleted)
	default:
		h.credentialsEvent(w, asSecret(e.Object), deleted)
	}
}

func (h *history) clientEvent(w *world, before, object *unstructured.Unstructured) {
	c := &v1beta1.ApiClient{}
	must(decode(object, c))
	of := h.client(nameOf(object))
	if of.uid != c.UID {
		*of = clientHistory{uid: c.UID}
	}
	of.id = c.EffectiveClientID()
	if _, released := c.Annotations[v1beta1.ReleaseAnnotation]; released {
		of.released = true
	}
	specs := h.specs[c.UID]
	if len(specs) > 0 && specs[len(specs)-1].generation == c.Generation {
		if before == nil || !reflect.DeepEqual(before.Object["status"], object.Object["status"]) {
			h.checkReady(w, c)
		}
		return
	}
	s := spec{generation: c.Generation, suspended: c.Spec.Suspend, generates: c.GeneratesSecret(), scopes: c.Spec.Scopes}
	if c.Spec.TokensValidAfterTime != nil {
		s.valid = c.Spec.TokensValidAfterTime.Time
	}
	h.specs[c.UID] = append(specs, s)
}

// credentialsEvent records which values are readable. What a user writes or deletes revokes all earlier
// values. S3: an operator doesn't delete a Secret while its value is valid.
func (h *history) credentialsEvent(w *world, secret *corev1.Secret, deleted bool) {
	if secret.Labels[v1beta1.ClientSecretLabel] != v1beta1.ClientSecretGenerated {
		return
	}
	of := h.client(types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name})
	if owner := metav1.GetControllerOf(secret); owner != nil && owner.UID != of.uid {
		return // It belongs to a deleted ApiClient, for which no invariant holds.
	}
	text := string(secret.Data[v1beta1.SecretKeyClientSecret])
	if deleted && !h.edits && of.record != nil && recorded(of.record, text) {
		w.violate(fmt.Errorf("S3: the credentials Secret of %s is deleted, although its secret is valid", secret.Name))
	}
	first := true
	for _, v := range of.values {
		if v.current && (v.text != text || deleted) {
			v.current, v.replaced = false, time.Now()
		}
		// The operator takes a value back that its record has not adopted: another client holds the ID, or a user
		// has revoked an earlier value that the operator had not seen.
		withdrawn := (deleted || v.text != text) && (of.record == nil || !recorded(of.record, v.text))
		v.revoked = v.revoked || h.edits || withdrawn
		first = first && v.revoked
	}
	if deleted || !clientsecret.WellFormed(text) || h.edits {
		return
	}
	at := slices.IndexFunc(of.values, func(v *value) bool { return v.text == text })
	if at >= 0 {
		of.values[at].current = true
		return
	}
	of.values = append(of.values, &value{text: text, first: first, current: true, accepted: map[*server]bool{}})
}

// recordEvent checks what a record may change.
func (h *history) recordEvent(w *world, secret *corev1.Secret, revision int64, deleted bool) {
	if owner := record.OwnerName(secret); owner.Namespace == "" {
		w.api.names[secret.Name] = "Realm " + owner.Name
	} else {
		w.api.names[secret.Name] = owner.Name
	}
	h.indexes.changed = revision
	h.indexes.written = append(h.indexes.written, written{revision, time.Now()})
	switch record.KindOf(secret) {
	case record.KindRealm:
		h.realmEvent(w, secret, revision, deleted)
	case record.KindIndex:
		h.indexes.indexEvent(secret, revision, deleted)
	case record.KindClient:
		of := h.client(record.OwnerName(secret))
		c, err := record.ReadClient(secret)
		must(err)
		h.indexes.clientEvent(w, secret, &c, revision, deleted, of.uid == c.UID)
		if deleted {
			h.recordDeleted(w, of, &c, revision)
			return
		}
		if holder, known := h.holders[secret.UID]; known && holder != c.UID {
			w.violate(fmt.Errorf("S1: the record of client ID %s changes its holder from %s to %s", c.ClientID, holder, c.UID))
		}
		h.holders[secret.UID] = c.UID
		h.restricted[secret.ResourceVersion] = c.Restrictions != nil
		if of.uid != c.UID {
			return // Its ApiClient was deleted, so no other invariant holds for it. The next one has its own record.
		}
		if c.Restrictions != nil && of.record != nil && of.record.Restrictions == nil {
			of.restricted = revision
		}
		if before := of.record; before != nil {
			h.checkEnds(w, of, before, &c)
			h.checkRestrictions(w, of, before, &c)
		}
		of.record = &c
	}
}

// recordDeleted checks that the record of an ApiClient is deleted only for a user. The next record contains no
// replaced secret.
func (h *history) recordDeleted(w *world, of *clientHistory, c *record.Client, revision int64) {
	if of.record == nil || of.uid != c.UID {
		return
	}
	if !h.edits && !of.released {
		w.violate(fmt.Errorf("S3: the record of %s is deleted", c.Name))
	}
	of.record, of.lost = nil, revision
	for _, v := range of.values {
		v.first, v.revoked = true, v.revoked || !v.current
		clear(v.accepted)
	}
}

// holderOf returns the UID of the client that holds a client ID.
func (h *history) holderOf(id string) types.UID {
	for _, of := range h.clients {
		if of.record != nil && of.record.ClientID == id {
			return of.record.UID
		}
	}
	return ""
}

// longestLifetime returns the longest lifetime of a token that is valid.
func (h *history) longestLifetime() (longest time.Duration) {
	for _, r := range h.realms {
		longest = max(longest, signingkey.LongestLifetime(r.Keys))
	}
	return longest
}

// S4: the record keeps the verifier of a value that was delivered, until the overlap is over.
func (h *history) checkEnds(w *world, of *clientHistory, before, after *record.Client) {
	for _, v := range of.values {
		if h.mayEnd(of, v) || !recorded(before, v.text) || recorded(after, v.text) {
			continue
		}
		w.violate(fmt.Errorf("S4: the record of %s drops the verifier of client secret %s, which was delivered and whose overlap is not over", after.Name, short(v.text)))
	}
}

// mayEnd reports whether servers may reject a value that was delivered.
func (h *history) mayEnd(of *clientHistory, v *value) bool {
	return v.revoked || !v.current && !time.Now().Before(v.replaced.Add(overlap-h.skew)) ||
		slices.ContainsFunc(h.specs[of.uid], func(s spec) bool { return !s.generates })
}

// recorded reports whether a record has a current verifier of a value.
func recorded(c *record.Client, text string) bool {
	return slices.ContainsFunc(c.Secrets, func(s record.ClientSecret) bool {
		verifier, err := clientsecret.ParseVerifier(s.Hash)
		return err == nil && verifier.Verify(text) && (s.ExpiresAt.IsZero() || time.Now().Before(s.ExpiresAt))
	})
}

// restrictions are what a spec can take from a client: whether the spec does, and whether a record has.
var restrictions = []struct {
	name  string
	asked func(s, earlier spec, after *record.Client) bool
	lifts func(before, after *record.Client) bool
}{
	{
		name:  "suspension",
		asked: func(s, _ spec, _ *record.Client) bool { return s.suspended },
		lifts: func(before, after *record.Client) bool { return before.Disabled && !after.Disabled },
	},
	{
		name:  "removal of a scope",
		asked: func(s, earlier spec, _ *record.Client) bool { return len(s.scopes) < len(earlier.scopes) },
		lifts: func(before, after *record.Client) bool { return len(before.Scopes) < len(after.Scopes) },
	},
	{
		name:  "tokensValidAfterTime",
		asked: func(s, _ spec, after *record.Client) bool { return s.valid.After(after.TokensValidAfter) },
		lifts: func(before, after *record.Client) bool { return after.TokensValidAfter.Before(before.TokensValidAfter) },
	},
	{
		name:  "new restriction", // no spec lifts it
		asked: func(spec, spec, *record.Client) bool { return true },
		lifts: func(before, after *record.Client) bool {
			return before.Restrictions != nil && after.Restrictions == nil
		},
	},
}

// S5: a restriction is lifted only for a generation of the ApiClient that doesn't ask for it and is later
// than the one that did. The model doesn't know which generation a record implements. It assumes the first
// generation that asked for the restriction after the restriction was last lifted.
func (h *history) checkRestrictions(w *world, of *clientHistory, before, after *record.Client) {
	for _, r := range restrictions {
		if !r.lifts(before, after) {
			continue
		}
		specs := h.specs[of.uid]
		generation, lifted := lift(specs, h.lifted[of.uid], func(s spec) bool { return r.asked(s, specs[0], after) })
		if generation > 0 && lifted == 0 {
			w.violate(fmt.Errorf("S5: the record of %s undoes a %s that generation %d asks for, and no later generation lifts it", after.Name, r.name, generation))
			return
		}
		h.lifted[of.uid] = max(h.lifted[of.uid], lifted)
	}
}

// lift returns the first generation after another one that asks for a restriction, and the next one that
// doesn't; 0 if there is none.
func lift(specs []spec, after int64, asks func(spec) bool) (asked, lifted int64) {
	for _, s := range specs {
		switch {
		case s.generation <= after:
		case asked == 0 && asks(s):
			asked = s.generation
		case asked > 0 && !asks(s):
			return asked, s.generation
		}
	}
	return asked, 0
}

// S3 and S4 at a server: it accepts the value in the Secret, and those for which the overlap isn't over. A
// first value may be ahead of the record and of the feed; once a server has accepted it, it counts like others.
func (h *history) checkSecrets(w *world, s *server, name types.NamespacedName) {
	of := h.clients[name]
	if w.excused(s) {
		return
	}
	realm := s.registry.Realm(realmName)
	if realm == nil {
		return
	}
	c := realm.Client(of.id)
	if s.previous && c != nil && h.restricted[c.Version] && c.Usable(s.now()) {
		w.violate(fmt.Errorf("S5: %s gives tokens to %s, although it does not know the restriction in its record", s.name, name.Name))
	}
	for _, v := range of.values {
		accepted := c != nil && s.verifies(c, v.text)
		unusable := c != nil && !c.Usable(s.now())
		switch {
		case accepted:
			v.accepted[s] = s.delivered >= of.lost
		case unusable || h.mayEnd(of, v) || of.record == nil:
		case v.current && !v.first:
			w.violate(fmt.Errorf("S3: %s rejects client secret %s, which the credentials Secret of %s contains", s.name, short(v.text), name.Name))
		case v.accepted[s]:
			w.violate(fmt.Errorf("S4: %s rejects client secret %s of %s, which it accepted and whose overlap is not over", s.name, short(v.text), name.Name))
		}
	}
}

// excused reports whether a server was cut off for so long that the operator may ignore it. It counts again when
// it has caught up and says so in its Lease.
func (w *world) excused(s *server) bool {
	s.lost = s.lost || time.Since(s.renewed) > heartbeat.Duration
	return s.lost
}

// realmSpec records what a user has asked for in a Realm.
func (h *history) realmSpec(object *unstructured.Unstructured) {
	suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
	specs := h.specs[object.GetUID()]
	if len(specs) == 0 || specs[len(specs)-1].generation != object.GetGeneration() {
		h.specs[object.GetUID()] = append(specs, spec{generation: object.GetGeneration(), suspended: suspended, generates: true})
	}
}

// realmEvent checks what the record of a Realm may change. S8: it has at most one Active key, and no key
// returns to an earlier state. S5: see checkRestrictions.
func (h *history) realmEvent(w *world, secret *corev1.Secret, revision int64, deleted bool) {
	before := h.realms[secret.Name]
	uid := record.RealmUID(secret)
	delete(h.realms, secret.Name)
	if deleted {
		delete(h.lifted, uid)
		return
	}
	r, err := record.ReadRealm(secret)
	must(err)
	h.indexes.realmEvent(w, r, revision)
	h.realms[secret.Name] = r
	active := 0
	for i := range r.Keys {
		key := &r.Keys[i]
		if key.State == signingkey.Active {
			active++
		}
		if earlier(key.State, stateOf(before, key.ID)) {
			w.violate(fmt.Errorf("S8: signing %s of Realm %s returns from %s to %s", h.key(key.ID).name, r.Name, stateOf(before, key.ID), key.State))
		}
	}
	if active > 1 {
		w.violate(fmt.Errorf("S8: Realm %s has %d Active keys", r.Name, active))
	}
	if !before.Disabled || r.Disabled {
		return
	}
	generation, lifted := lift(h.specs[uid], h.lifted[uid], func(s spec) bool { return s.suspended })
	if generation > 0 && lifted == 0 {
		w.violate(fmt.Errorf("S5: the record of Realm %s undoes a suspension that generation %d asks for, and no later generation lifts it", r.Name, generation))
	}
	h.lifted[uid] = max(h.lifted[uid], lifted)
}

func stateOf(r record.Realm, key string) signingkey.State {
	for i := range r.Keys {
		if r.Keys[i].ID == key {
			return r.Keys[i].State
		}
	}
	return ""
}

// earlier reports whether a key can't reach a state from another one.
func earlier(state, before signingkey.State) bool {
	order := []signingkey.State{"", signingkey.Pending, signingkey.Active, signingkey.Retiring}
	return slices.Index(order, state) < slices.Index(order, before)
}

// key returns the history of a signing key.
func (h *history) key(id string) *keyHistory {
	if h.keys[id] == nil {
		h.keys[id] = &keyHistory{name: fmt.Sprintf("key %d", len(h.keys)+1), published: map[*server]bool{}}
	}
	return h.keys[id]
}

// S6: every live server publishes the key that a live server signs with. S7: a server ceases to publish a
// key only after the last token that was signed with it has expired. A first key that has waited for the
// servers for too long is the exception.
func (h *history) checkKeys(w *world) {
	for _, signs := range w.live() {
		realm := signs.registry.Realm(realmName)
		if realm == nil {
			continue
		}
		for i := range realm.Keys {
			recorded := &realm.Keys[i]
			if recorded.State != signingkey.Active || recorded.PublishedAt.IsZero() && recorded.ActiveAt.Sub(recorded.CreatedAt) >= signingkey.FirstKeyWait {
				continue
			}
			key := h.key(recorded.ID)
			key.until = timestamp.Latest(key.until, signs.now().Add(realm.TokenLifetime))
			for _, s := range w.live() {
				if other := s.registry.Realm(realmName); other == nil || !bytes.Contains(other.JWKS, []byte(recorded.ID)) {
					w.violate(fmt.Errorf("S6: %s signs with %s, which %s does not publish", signs.name, key.name, s.name))
				}
			}
		}
	}
	for id, key := range h.keys {
		for _, s := range w.live() {
			realm := s.registry.Realm(realmName)
			published := realm != nil && bytes.Contains(realm.JWKS, []byte(id))
			if key.published[s] && !published && w.apiTime().Before(key.until) {
				w.violate(fmt.Errorf("S7: %s no longer publishes %s, although tokens that were signed with it are valid", s.name, key.name))
			}
			key.published[s] = published
		}
	}
}

// live returns the servers that answer requests and that the operator may not ignore.
func (w *world) live() []*server {
	return slices.DeleteFunc(slices.Clone(w.servers), func(s *server) bool {
		return !s.answers() || w.excused(s)
	})
}

// S9: what an operator that leads considers as acknowledged, every server serves that has ever written its
// Lease. A server that hasn't done so yet must not be forgotten before an irreversible step, which S3
// checks.
func (h *history) checkAcknowledgements(w *world) {
	records, _ := w.api.store.List(secretResource, memory.Selection{Namespace: recordsNamespace})
	for _, o := range w.operators {
		if o.dead || !o.leads {
			continue
		}
		for _, object := range records {
			if object.GetLabels()[v1beta1.RecordLabel] != string(record.KindClient) || !o.acknowledged(object.GetName(), object.GetResourceVersion()) {
				continue
			}
			for _, s := range w.live() {
				c := s.registry.ClientOf(object.GetName())
				if s.reported > 0 && (c == nil || !heartbeat.Reached(c.Version, object.GetResourceVersion())) {
					w.violate(fmt.Errorf("S9: %s considers revision %s of the record of %s as acknowledged, which %s does not serve", o.name, object.GetResourceVersion(), asSecret(object).Annotations[v1beta1.OwnerAnnotation], s.name))
				}
			}
		}
	}
}

// S10: a client is reported as Ready for a generation only if every live server gives it tokens for the value
// in its Secret, if the generation has one: without one, an operator deletes the Secret as soon as its cache
// contains it. What a user has taken from the Secret since the decision is excepted. So is a restriction that
// restrict has added since: it doesn't change the generation, although a field of the spec would. So is a server
// with the previous program that has joined since, or that the operator hasn't heard of: others can read the
// record. The decision is based on the versions that the operator has seen, which are older while a watch cache
// stands still.
func (h *history) checkReady(w *world, c *v1beta1.ApiClient) {
	if len(w.api.stalled) > 0 {
		return
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, string(v1beta1.ConditionReady))
	if ready == nil || ready.Status != "True" || ready.ObservedGeneration != c.Generation || !c.GeneratesSecret() {
		return
	}
	of := h.client(types.NamespacedName{Namespace: c.Namespace, Name: c.Name})
	if of.record == nil {
		return // A user has deleted the record. The decision can have been based on it.
	}
	for _, v := range of.values {
		for _, s := range w.live() {
			realm := s.registry.Realm(realmName)
			if realm != nil && realm.Disabled {
				continue // The decision can have been based on an earlier generation of the Realm.
			}
			if s.previous && (of.restricted > w.decided || s.joined > w.heard) {
				continue
			}
			if v.current && !v.revoked && s.reported > 0 && !s.accepts(realmName, c.EffectiveClientID(), v.text) {
				w.violate(fmt.Errorf("S10: ApiClient %s becomes Ready, but %s gives it no token", c.Name, s.name))
			}
		}
	}
}

// S14: a restarted server doesn't serve less than it has acknowledged.
func (h *history) checkRestart(w *world, s *server) {
	records, _ := w.api.store.List(secretResource, memory.Selection{Namespace: recordsNamespace})
	acknowledged := h.served[s.name]
	if acknowledged == nil {
		acknowledged = map[string]string{}
		h.served[s.name] = acknowledged
	}
	for _, object := range records {
		c := s.registry.ClientOf(object.GetName())
		if c == nil {
			continue
		}
		if before := acknowledged[object.GetName()]; before != "" && !heartbeat.Reached(c.Version, before) {
			w.violate(fmt.Errorf("S14: %s serves revision %s of a record, of which it has acknowledged revision %s", s.name, c.Version, before))
		}
		if s.reported >= s.delivered && s.delivered > 0 && !s.lost {
			acknowledged[object.GetName()] = c.Version
		}
	}
}

package kubectlplugin

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/backup"
	"github.com/realmkeeper/realmkeeper/internal/record"
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

// Errors of single objects.
var (
	ErrDeleting     = errDeleting
	ErrClientIDHeld = errClientIDHeld
	ErrOtherClient  = errOtherClient
)

// Live is a cluster with the Realm acme and the ApiClient acme-apps/billing, or without them if their
// UIDs are empty.
type Live struct {
	Realm, Client                 types.UID
	RealmDeleting, ClientDeleting bool
	// Records are the UIDs of the records by name. Holder is their owner; it defaults to the ApiClient.
	Records      map[string]types.UID
	Unreadable   bool // all records
	Holder       string
	RestoredFrom time.Time
	// ClientID defaults to billing.
	ClientID string
	Again    bool
}

func (l Live) state() *liveState {
	s := &liveState{realms: map[string]liveObject{}, clients: map[string]liveObject{}, records: map[string]liveRecord{}, again: l.Again}
	if l.Realm != "" {
		s.realms["acme"] = liveObject{uid: l.Realm, deleting: l.RealmDeleting}
	}
	if l.Client != "" {
		s.clients["acme-apps/billing"] = liveObject{uid: l.Client, deleting: l.ClientDeleting, realm: "acme", clientID: cmp.Or(l.ClientID, "billing")}
	}
	for name, uid := range l.Records {
		holder := l.Holder
		if holder == "" {
			holder = "acme-apps/billing"
		}
		s.records[name] = liveRecord{uid: uid, owner: holder, client: "c2", unreadable: l.Unreadable, restoredFrom: l.RestoredFrom}
	}
	return s
}

// PlanRealm exports planRealm.
func (l Live) PlanRealm(entry *backup.Entry, body record.Realm, backupTime time.Time) (bool, error) {
	return l.state().planRealm(entry, body, backupTime)
}

// PlanClient exports planClient.
func (l Live) PlanClient(entry *backup.Entry, body record.Client, backupTime time.Time) (bool, error) {
	return l.state().planClient(entry, body, backupTime)
}

// RestoreFlags are flags of restore.
type RestoreFlags struct {
	Identity age.Identity // restores if it is set, and finishes otherwise
	Force    bool
	Again    bool
	Wait     bool
	Realm    string
	URL      string
}

// RunRestore restores the backup at path, or finishes the restore.
func RunRestore(ctx context.Context, c client.Client, out io.Writer, path string, flags RestoreFlags) error {
	o := &restoreOptions{
		clusterOptions: &clusterOptions{streams: genericiooptions.IOStreams{Out: out, ErrOut: out}},
		force:          flags.Force, again: flags.Again, wait: flags.Wait, realm: flags.Realm, timeout: time.Millisecond,
	}
	if flags.Identity == nil {
		return o.finishAll(ctx, &cluster{Client: c}, recordsNamespace)
	}
	source, err := o.open(path)
	if err != nil {
		return err
	}
	defer source.close()
	source.identities = []age.Identity{flags.Identity}
	reader, err := source.read()
	if err != nil {
		return err
	}
	contents, err := backup.Check(reader)
	if err != nil {
		return err
	}
	return o.restore(ctx, &cluster{Client: c}, &installation{recordsNamespace: recordsNamespace, serviceURL: flags.URL}, source, contents)
}

const recordsNamespace = "records"

// RunBackup writes a backup of a cluster with the given service URL, and the report to out.
func RunBackup(ctx context.Context, c client.Client, out, file io.Writer, at time.Time, serviceURL string, recipient age.Recipient) error {
	header := backup.Header{CreatedAt: at, ServiceURL: serviceURL, RecordsNamespace: recordsNamespace}
	r, err := (&cluster{Client: c}).backUp(ctx, file, header, []age.Recipient{recipient})
	if err != nil {
		return err
	}
	return r.print(out)
}

// PrintExplanation prints the report of explain about the client, or the realm if it is not nil.
func PrintExplanation(out io.Writer, format string, c *v1alpha1.ApiClient, realm *v1alpha1.Realm, event corev1.Event) error {
	t := &target{kind: kindClient, object: c, client: c}
	if realm != nil {
		t = &target{kind: kindRealm, object: realm, realm: realm}
	}
	r := explanation{
		Findings: t.findings(), title: t.String(), notes: []string{event.Message},
		Events: []eventReport{{Reason: event.Reason, Message: event.Message}},
	}
	if realm != nil {
		r.Realm = newRealmReport(t)
	} else {
		r.Client = newClientReport(t)
	}
	return printTo(out, format, r)
}

// PrintProblems prints the problems of the objects in the report of status.
func PrintProblems(out io.Writer, format string, c *v1alpha1.ApiClient, realm *v1alpha1.Realm) error {
	return printTo(out, format, &statusReport{Problems: ProblemsOf([]*v1alpha1.ApiClient{c}, []*v1alpha1.Realm{realm})})
}

func printTo(out io.Writer, format string, r report) error {
	return (&clusterOptions{output: format, streams: genericiooptions.IOStreams{Out: out, ErrOut: out}}).print(r)
}

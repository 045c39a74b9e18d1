package localissuer

import (
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// reporter prints objects whose conditions have changed: how to use those that are Ready, and the
// conditions of the others.
type reporter struct {
	out     io.Writer
	dir     string
	printed map[key]string // the last printed text
	started bool           // whether start has been called
}

func newReporter(out io.Writer, dir string) *reporter {
	return &reporter{out: out, dir: dir, printed: map[key]string{}}
}

// start prints that the issuer is only for development and tests, and how to stop it.
func (r *reporter) start() {
	w := terminal.NewWriter(r.out)
	w.Line(terminal.Plain, "")
	w.Line(terminal.Plain, "This issuer is for development and tests. It listens on the loopback interface only.")
	w.Line(terminal.Plain, "Press Ctrl+C to stop it.")
}

// report prints what has changed. existing are the objects in the files.
func (r *reporter) report(realms []*v1beta1.Realm, clients []*v1beta1.ApiClient, existing map[key]bool) {
	for _, realm := range realms {
		r.print(key{"Realm", client.ObjectKeyFromObject(realm)}, realm.Status.Conditions, func(w *terminal.Writer) {
			w.Line(terminal.Plain, "Realm %s is Ready.", realm.Name)
			w.Aligned([][]string{
				{"  Issuer:", realm.Status.Issuer}, {"  Token endpoint:", realm.Status.TokenEndpoint}, {"  Keys:", realm.Status.JWKSURI},
			})
		})
	}
	for _, c := range clients {
		r.print(key{"ApiClient", client.ObjectKeyFromObject(c)}, c.Status.Conditions, func(w *terminal.Writer) { r.usage(w, c) })
	}
	if !r.started {
		r.started = true
		r.start()
	}
	for k := range r.printed {
		if !existing[k] {
			delete(r.printed, k)
			w := terminal.NewWriter(r.out)
			w.Line(terminal.Plain, "")
			w.Line(terminal.Plain, "%s was removed.", k)
		}
	}
}

// print prints the conditions of an object, or its usage if it is Ready.
func (r *reporter) print(k key, conditions []metav1.Condition, usage func(*terminal.Writer)) {
	var text strings.Builder
	w := terminal.NewWriter(&text)
	w.Line(terminal.Plain, "")
	if meta.IsStatusConditionTrue(conditions, string(v1beta1.ConditionReady)) {
		usage(w)
	}
	if !isFine(conditions) {
		describeConditions(w, k, conditions)
	}
	if r.printed[k] != text.String() {
		r.printed[k] = text.String()
		_, _ = io.WriteString(r.out, text.String()) // nothing is lost if the output is closed
	}
}

// isFine reports whether no condition needs attention.
func isFine(conditions []metav1.Condition) bool {
	for _, of := range []v1beta1.ConditionType{v1beta1.ConditionAccepted, v1beta1.ConditionProgrammed, v1beta1.ConditionReady} {
		if !meta.IsStatusConditionTrue(conditions, string(of)) {
			return false
		}
	}
	return len(conditions) == 3 || !slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		unresolved := c.Type == string(v1beta1.ConditionIssuersResolved) || c.Type == string(v1beta1.ConditionExchangesResolved)
		return c.Type == string(v1beta1.ConditionWeaklyHashed) || unresolved && c.Status != metav1.ConditionTrue
	})
}

// usage prints how to get a token.
func (r *reporter) usage(w *terminal.Writer, c *v1beta1.ApiClient) {
	w.Line(terminal.Plain, "ApiClient %s/%s is Ready.", c.Namespace, c.Name)
	w.Line(terminal.Plain, "  Client ID:  %s", c.Status.ClientID)
	if c.Status.SecretName == "" {
		w.Line(terminal.Plain, "  Endpoint:   %s", c.Status.TokenEndpoint)
		w.Line(terminal.Plain, "  CA:         %s", filepath.Join(r.dir, v1beta1.SecretKeyCACrt))
		return
	}
	dir, names := clientDir(r.dir, c), c.GeneratedSecret()
	w.Line(terminal.Plain, "  Secret:     %s", dir)
	w.Line(terminal.Plain, "  Get a token:")
	w.Commands(4, []string{"curl -sS --cacert " + untrusted.Quote(filepath.Join(r.dir, v1beta1.SecretKeyCACrt)) + ` -d grant_type=client_credentials \`})
	for _, name := range []string{v1beta1.SecretKeyClientID, v1beta1.SecretKeyClientSecret} {
		w.Commands(6, []string{"--data-urlencode " + untrusted.Quote(name+"@"+filepath.Join(dir, names.DataKey(name))) + ` \`})
	}
	w.Commands(6, []string{untrusted.Quote(c.Status.TokenEndpoint)})
}

// describeConditions prints conditions as kubectl describe does.
func describeConditions(w *terminal.Writer, k key, conditions []metav1.Condition) {
	rows := [][]string{{"Name:", k.Name}, {"Namespace:", k.Namespace}, {"Kind:", k.kind}, {"Status:"}, {"  Conditions:"}}
	for _, c := range conditions {
		rows = append(rows,
			[]string{"    Last Transition Time:", c.LastTransitionTime.UTC().Format(time.RFC3339)},
			[]string{"    Message:", c.Message},
			[]string{"    Observed Generation:", strconv.FormatInt(c.ObservedGeneration, 10)},
			[]string{"    Reason:", c.Reason},
			[]string{"    Status:", string(c.Status)},
			[]string{"    Type:", c.Type},
		)
	}
	w.Aligned(rows)
}

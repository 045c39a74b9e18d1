package localissuer

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// reporter prints objects whose conditions have changed: how to use those that are Ready, and the
// conditions of the others.
type reporter struct {
	out     io.Writer
	dir     string
	printed map[key]string // the last printed text
}

func newReporter(out io.Writer, dir string) *reporter {
	return &reporter{out: out, dir: dir, printed: map[key]string{}}
}

// start prints that the issuer is only for development and tests, and how to stop it.
func (r *reporter) start() {
	fmt.Fprint(r.out, "\nThis issuer is for development and tests. It listens on the loopback interface only.\n"+
		"Press Ctrl+C to stop it.\n")
}

func (r *reporter) report(i *issuer) {
	for _, k := range sorted(i.objects.realms) {
		realm := i.objects.realms[k]
		r.print(k, realm.Status.Conditions, func(w io.Writer) {
			fmt.Fprintf(w, "Realm %s is Ready.\n", realm.Name)
			table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprintf(table, "  Issuer:\t%s\n  Token endpoint:\t%s\n  Keys:\t%s\n", realm.Status.Issuer, realm.Status.TokenEndpoint, realm.Status.JWKSURI)
			_ = table.Flush() // nothing is lost if the output is closed
		})
	}
	for _, k := range i.objects.order {
		c := i.objects.clients[k]
		r.print(k, c.Status.Conditions, func(w io.Writer) { r.usage(w, k, c) })
	}
	for k := range r.printed {
		if i.objects.admitted[k] == nil {
			delete(r.printed, k)
			fmt.Fprintf(r.out, "\n%s was removed.\n", k)
		}
	}
}

// print prints the conditions of an object, or its usage if it is Ready.
func (r *reporter) print(k key, conditions []metav1.Condition, usage func(io.Writer)) {
	var text strings.Builder
	if meta.IsStatusConditionTrue(conditions, string(v1alpha1.ConditionReady)) {
		usage(&text)
	}
	if !isFine(conditions) {
		describeConditions(&text, k, conditions)
	}
	if r.printed[k] != text.String() {
		r.printed[k] = text.String()
		fmt.Fprintf(r.out, "\n%s", text.String())
	}
}

// isFine reports whether no condition needs attention.
func isFine(conditions []metav1.Condition) bool {
	for _, of := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		if !meta.IsStatusConditionTrue(conditions, string(of)) {
			return false
		}
	}
	return len(conditions) == 3 || !slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		return c.Type == string(v1alpha1.ConditionWeakHash) || c.Type == string(v1alpha1.ConditionIssuersResolved) && c.Status != metav1.ConditionTrue
	})
}

// usage prints how to get a token.
func (r *reporter) usage(w io.Writer, k key, c *v1alpha1.ApiClient) {
	fmt.Fprintf(w, "ApiClient %s/%s is Ready.\n  Client ID:  %s\n", c.Namespace, c.Name, c.Status.ClientID)
	if c.Status.SecretName == "" {
		fmt.Fprintf(w, "  Endpoint:   %s\n  CA:         %s\n", c.Status.TokenEndpoint, filepath.Join(r.dir, v1alpha1.SecretKeyCACrt))
		return
	}
	dir, names := clientDir(r.dir, k), c.GeneratedSecret()
	fmt.Fprintf(w, "  Secret:     %s\n  Get a token:\n", dir)
	fmt.Fprintf(w, "    curl -sS --cacert %s -d grant_type=client_credentials \\\n", filepath.Join(r.dir, v1alpha1.SecretKeyCACrt))
	for _, name := range []string{v1alpha1.SecretKeyClientID, v1alpha1.SecretKeyClientSecret} {
		fmt.Fprintf(w, "      --data-urlencode %s@%s \\\n", name, filepath.Join(dir, names.DataKey(name)))
	}
	fmt.Fprintf(w, "      %s\n", c.Status.TokenEndpoint)
}

// describeConditions prints conditions as kubectl describe does.
func describeConditions(w io.Writer, k key, conditions []metav1.Condition) {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "Name:\t%s\nNamespace:\t%s\nKind:\t%s\n", k.Name, k.Namespace, k.kind)
	_ = table.Flush() // nothing is lost if the output is closed
	fmt.Fprint(w, "Status:\n  Conditions:\n")
	for _, c := range conditions {
		fmt.Fprintf(table, "    Last Transition Time:\t%s\n    Message:\t%s\n    Observed Generation:\t%d\n    Reason:\t%s\n    Status:\t%s\n    Type:\t%s\n",
			c.LastTransitionTime.UTC().Format(time.RFC3339), c.Message, c.ObservedGeneration, c.Reason, c.Status, c.Type)
	}
	_ = table.Flush()
}

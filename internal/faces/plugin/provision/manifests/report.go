package manifests

import (
	"fmt"

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

// Plan says what changes in the folder, and what doesn't. Paths are those in the folder.
type Plan struct {
	DryRun    bool     `json:"dryRun"`
	Create    []string `json:"create"`
	Change    []string `json:"change"`
	Unchanged int      `json:"unchanged"`
	// ByHand are the service accounts that have an ApiClient that a person wrote or changed.
	ByHand []Account `json:"byHand"`
	// ChangedInCluster are the files that differ from their ApiClients in the cluster.
	ChangedInCluster []string `json:"changedInCluster"`
	// NoLongerMatching are generated files without a service account.
	NoLongerMatching []string `json:"noLongerMatching"`
	// Skipped are the namespaces whose clients the realm would not accept.
	Skipped []Namespace `json:"skipped"`

	contents map[string][]byte // of Create and Change
}

// Account is a service account without a generated file.
type Account struct {
	Name   string `json:"name"` // namespace/name
	Reason string `json:"reason"`
}

// Namespace is a namespace without files.
type Namespace struct {
	Name            string `json:"name"`
	ServiceAccounts int    `json:"serviceAccounts"`
	Reason          string `json:"reason"`
}

// Text writes the numbers, and the names of what needs attention.
func (p *Plan) Text(w *terminal.Writer) {
	created, changed := "Created", "changed"
	if p.DryRun {
		created, changed = "Would create", "change"
	}
	w.Paragraph(0, terminal.Green, fmt.Sprintf("%s %d, %s %d; %d are unchanged, %d exist by hand and are left alone",
		created, len(p.Create), changed, len(p.Change), p.Unchanged, len(p.ByHand)))
	var byHand, skipped []string
	for _, a := range p.ByHand {
		byHand = append(byHand, a.Name+": "+a.Reason)
	}
	for _, n := range p.Skipped {
		skipped = append(skipped, output.Number(n.ServiceAccounts, "service account")+" in "+n.Name+": "+n.Reason)
	}
	output.Named(w, terminal.Plain, "By hand:", byHand)
	output.Named(w, terminal.Yellow, "Other than in the cluster, because the ApiClient was changed there, or the file is not applied yet:", p.ChangedInCluster)
	output.Named(w, terminal.Yellow, "Skipped, because the ApiClients would not be Ready:", skipped)
	output.Named(w, terminal.Yellow, "Without a service account that matches. To delete the ApiClients, delete the files:", p.NoLongerMatching)
}

package kubectlplugin

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/terminal"
	"github.com/realmkeeper/realmkeeper/internal/untrusted"
)

// result says what restore did to an object.
type result string

const (
	resultCreated result = "created"
	resultKept    result = "kept"          // it exists with the same spec
	resultDiffers result = "kept, differs" // it exists with another spec
	resultFailed  result = "failed"
)

// adoption says what happens to the keys of a Realm or the secrets of an ApiClient.
type adoption string

const (
	adoptionRequested adoption = "Requested" // there is a restore record for the operator
	adoptionAdopted   adoption = "Adopted"   // the operator has adopted it
	adoptionUnneeded  adoption = "Unneeded"  // they were never lost, or were restored before
	adoptionNone      adoption = "None"      // the backup has none
)

func adoptionOf(outcome adoptable, found bool) adoption {
	switch {
	case !found:
		return adoptionNone
	case !outcome.needed:
		return adoptionUnneeded
	}
	return adoptionRequested
}

// restoredObject is the result for one object of the backup.
type restoredObject struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Result    result   `json:"result"`
	Adoption  adoption `json:"adoption,omitempty"`
	// Count is the number of keys or secrets in the backup.
	Count int `json:"count"`
	// Omitted are the IDs of secrets in the backup for which the client has no room.
	Omitted []string `json:"omittedSecrets,omitempty"`
	Error   string   `json:"error,omitempty"`

	record types.UID // of the restore record, or empty
}

func (o *restoredObject) name() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// restoreReport is the report of restore.
type restoreReport struct {
	BackupTime metav1.Time      `json:"backupTime"`
	DryRun     bool             `json:"dryRun,omitempty"`
	Objects    []restoredObject `json:"objects"`
	Failed     int              `json:"failed"`

	realm string // of --realm
}

func (r *restoreReport) add(row restoredObject, err error) {
	if err != nil {
		row.Result, row.Adoption, row.record, row.Omitted, row.Error = resultFailed, "", "", nil, err.Error()
		r.Failed++
	}
	r.Objects = append(r.Objects, row)
}

// keys describes the keys or secrets of an object.
func (o *restoredObject) keys() string {
	thing := "secret"
	if o.Kind == kindRealm {
		thing = "key"
	}
	switch o.Adoption {
	case adoptionRequested:
		return number(o.Count, thing) + " to adopt"
	case adoptionAdopted:
		return number(o.Count, thing) + " adopted"
	case adoptionUnneeded:
		return "unchanged"
	case adoptionNone:
		return "none in the backup"
	}
	return ""
}

func (r restoreReport) text(w *terminal.Writer) {
	var rows []terminal.Row
	requested, clients := 0, 0
	for i := range r.Objects {
		o := &r.Objects[i]
		color := terminal.Plain
		switch o.Result {
		case resultFailed:
			color = terminal.Red
		case resultDiffers:
			color = terminal.Yellow
		}
		rows = append(rows, terminal.Row{Color: color, Cells: []string{o.Kind, o.name(), string(o.Result), o.keys()}})
		if o.Adoption == adoptionRequested {
			requested++
		}
		if o.Kind == kindClient && (o.Adoption == adoptionRequested || o.Adoption == adoptionAdopted) {
			clients++
		}
	}
	of := "Backup of " + timestamp(r.BackupTime.Time)
	if r.DryRun {
		of += " (dry run, nothing was written)"
	}
	w.Paragraph(0, terminal.Bold, of)
	w.Table([]string{"KIND", "NAME", "OBJECT", "KEYS OR SECRETS"}, rows)
	r.failures(w)
	r.omitted(w)
	if !r.DryRun {
		r.next(w, requested, clients)
	}
}

func (r *restoreReport) failures(w *terminal.Writer) {
	if r.Failed == 0 {
		return
	}
	w.Heading("FAILED")
	for i := range r.Objects {
		if o := &r.Objects[i]; o.Error != "" {
			w.Paragraph(2, terminal.Red, o.Kind+" "+o.name())
			w.Paragraph(4, terminal.Plain, o.Error)
		}
	}
}

// omitted names the secrets that are not restored.
func (r *restoreReport) omitted(w *terminal.Writer) {
	headed := false
	for i := range r.Objects {
		o := &r.Objects[i]
		if len(o.Omitted) == 0 {
			continue
		}
		if !headed {
			w.Heading("OMITTED")
			w.Paragraph(2, terminal.Plain, fmt.Sprintf("A client can have %d secrets of a backup. These older ones are not restored:", record.MaxRestoredSecrets))
			headed = true
		}
		w.Paragraph(4, terminal.Yellow, o.Kind+" "+o.name()+": "+strings.Join(o.Omitted, ", "))
	}
}

// next says what the operator and the user have to do.
func (r *restoreReport) next(w *terminal.Writer, requested, clients int) {
	if requested+clients == 0 {
		return
	}
	w.Heading("NEXT")
	if requested > 0 {
		w.Paragraph(2, terminal.Plain, fmt.Sprintf("The operator adopts the keys or secrets of %s. To wait for it, run the same command with --wait.", number(requested, "object")))
	}
	if clients > 0 {
		finish := "kubectl realmkeeper restore --finish"
		if r.realm != "" {
			finish += " --realm " + untrusted.Quote(r.realm)
		}
		w.Paragraph(2, terminal.Plain, "The restored secrets are accepted until you run this command. Run it after all workloads use the secret in their credentials Secret:")
		w.Commands(4, []string{finish})
	}
}

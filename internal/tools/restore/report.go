package restore

import (
	"fmt"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

// Result says what a restore does to an object.
type Result string

// Results.
const (
	Created Result = "created"
	Kept    Result = "kept"          // it exists with the same spec
	Differs Result = "kept, differs" // it exists with another spec
	Skipped Result = "skipped"       // it is not created or used, because of its problem
)

// Data says what a restore does to the keys of a Realm or the secrets of an ApiClient.
type Data string

// What happens to keys and secrets.
const (
	Restored  Data = "Restored"  // they are put back
	Added     Data = "Added"     // they are added to those that the object has
	Unchanged Data = "Unchanged" // they were never lost, or were restored before
	None      Data = "None"      // the backup has none
	// NotRestored means that the object has a problem.
	NotRestored Data = "NotRestored"
)

// Object is the result for one object of the backup.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Result    Result `json:"result"`
	Data      Data   `json:"data"`
	// Count is the number of keys or secrets in the backup.
	Count int `json:"count"`
	// Omitted are the IDs of secrets in the backup for which the client has no room.
	Omitted []string `json:"omittedSecrets,omitempty"`
	// Credentials is the name of the credentials Secret that had no owner or a deleted one, and now
	// belongs to the ApiClient.
	Credentials string `json:"credentialsSecret,omitempty"`
	// Problem says why an ApiClient is not restored, or why its credentials Secret does not belong to it.
	Problem string `json:"problem,omitempty"`
}

// failed handles the error of an object. Tenants can make the restore of their ApiClients fail, so the error of one
// ApiClient is only put into the report, with the given results. failed returns all other errors.
func (o *Object) failed(err error, result Result, data Data) error {
	if err == nil {
		return nil
	}
	if backup.Kind(o.Kind) == backup.KindClient && single(err) {
		o.Problem, o.Result, o.Data = err.Error(), result, data
		return nil
	}
	return fmt.Errorf("restoring %s %s: %w", o.Kind, o, err)
}

// String returns the namespace and name of the object.
func (o *Object) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// Report is what a restore does.
type Report struct {
	BackupTime time.Time `json:"backupTime"`
	Objects    []*Object `json:"objects"`
}

// Problems returns the number of ApiClients that are not restored, or not completely.
func (r *Report) Problems() int {
	n := 0
	for _, o := range r.Objects {
		if o.Problem != "" {
			n++
		}
	}
	return n
}

// rows are the objects of a report by kind and name.
type rows map[string]*Object

func (r rows) of(kind backup.Kind, name string) *Object { return r[string(kind)+" "+name] }

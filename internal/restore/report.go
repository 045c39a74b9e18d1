package restore

import (
	"time"

	"github.com/realmkeeper/realmkeeper/internal/backup"
)

// Result says what a restore does to an object.
type Result string

// Results.
const (
	Created Result = "created"
	Kept    Result = "kept"          // it exists with the same spec
	Differs Result = "kept, differs" // it exists with another spec
)

// Data says what a restore does to the keys of a Realm or the secrets of an ApiClient.
type Data string

// What happens to keys and secrets.
const (
	Restored  Data = "Restored"  // they are put back
	Added     Data = "Added"     // they are added to those that the object has
	Unchanged Data = "Unchanged" // they were never lost, or were restored before
	None      Data = "None"      // the backup has none
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

// rows are the objects of a report by kind and name.
type rows map[string]*Object

func (r rows) of(kind backup.Kind, name string) *Object { return r[string(kind)+" "+name] }

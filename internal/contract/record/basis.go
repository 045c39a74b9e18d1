package record

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Basis says which versions of its inputs a record implements. The operator refuses to write a record
// from an older input than the one that the record implements, so that neither a lagging cache nor a
// second operator can undo a change. Because each write is conditional on the record's resource
// version, this comparison can't be overtaken by another write. Token servers ignore the basis.
type Basis struct {
	// Generation is the metadata.generation of the owner, a Realm or an ApiClient. It is always current.
	Generation int64 `json:"generation,omitempty"`
	// RealmGeneration is the generation of the Realm that RealmUID in the record identifies. It and
	// Namespace are written only together with another change: an edit of a Realm must not rewrite the
	// records of all its clients.
	RealmGeneration int64 `json:"realmGeneration,omitempty"`
	// Namespace is the version of the labels of the client's namespace; zero if no grant or exchange of the
	// Realm selects namespaces by their labels.
	Namespace NamespaceBasis `json:"namespace,omitzero"`
	// ContentVersion is the resource version since which only the basis, generated secrets, the status index, or
	// keys have changed. It is empty if anything else changed with the latest write of the record. The status
	// counts acknowledgements from this version on.
	ContentVersion string `json:"content,omitempty"`
}

// NamespaceBasis is the version of the labels of a Namespace.
type NamespaceBasis struct {
	// UID is the UID of the Namespace.
	UID types.UID `json:"uid,omitempty"`
	// Version is the resource version of the Namespace. It also grows with changes that don't affect the
	// labels.
	Version string `json:"version,omitempty"`
	// Labels is the Digest of the labels.
	Labels string `json:"labels,omitempty"`
}

// Input is an input of a record.
type Input string

// Inputs of a record.
const (
	InputOwner     Input = "owner" // the Realm or ApiClient itself
	InputRealm     Input = "realm"
	InputNamespace Input = "namespace"
)

// Older returns the inputs that b has in an older version than recorded. The caller must compare records
// of the same owner and Realm only.
func (b *Basis) Older(recorded *Basis) []Input {
	var older []Input
	if b.Generation < recorded.Generation {
		older = append(older, InputOwner)
	}
	if b.RealmGeneration < recorded.RealmGeneration {
		older = append(older, InputRealm)
	}
	if b.Namespace.older(&recorded.Namespace) {
		older = append(older, InputNamespace)
	}
	return older
}

// older reports whether n has older labels than recorded. Versions of another Namespace of the same name
// are not compared: the API server deletes the ApiClients of a Namespace with it.
func (n *NamespaceBasis) older(recorded *NamespaceBasis) bool {
	if n.UID != recorded.UID || n.Labels == recorded.Labels {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(n.Version, recorded.Version)
	return err == nil && order < 0
}

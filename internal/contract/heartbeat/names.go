package heartbeat

import (
	"slices"
	"strings"
)

// Annotations that contain names, or All. They are absent if there are none.
const (
	// UndecryptedPendingAnnotation and UndecryptedActiveAnnotation contain the names of Realms whose Pending or
	// Active signing key the server has not decrypted yet.
	UndecryptedPendingAnnotation = "auth.realmkeeper.dev/undecrypted-next-keys"
	UndecryptedActiveAnnotation  = "auth.realmkeeper.dev/undecrypted-active-keys"
	// UnreadableAnnotation contains the names of records that the server could not read or enforce.
	UnreadableAnnotation = "auth.realmkeeper.dev/unreadable-records"
)

// All replaces the names if there are more than MaxNames. Any object may then be one of them.
const All = "*"

// MaxNames is the maximum number of names in an annotation.
const MaxNames = 64

// maxName is the maximum length of an object's name.
const maxName = 253

// encodeNames returns the value of an annotation. It is empty for no names.
func encodeNames(names []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	if len(sorted) > MaxNames {
		return All
	}
	return strings.Join(sorted, ",")
}

// parseNames returns the names in the value of an annotation. A value that is too long is All.
func parseNames(value string) []string {
	switch {
	case value == "":
		return nil
	case len(value) > MaxNames*(maxName+1):
		return []string{All}
	}
	names := strings.Split(value, ",")
	if len(names) > MaxNames {
		return []string{All}
	}
	return names
}

func contains(names []string, name string) bool {
	return slices.Contains(names, name) || slices.Contains(names, All)
}

// DecryptedPending reports whether the server has decrypted the Pending signing key of a Realm, or doesn't
// need to.
func (h *Heartbeat) DecryptedPending(realm string) bool {
	return !contains(h.UndecryptedPending, realm)
}

// DecryptedActive reports whether the server has decrypted the Active signing key of a Realm, or doesn't
// need to.
func (h *Heartbeat) DecryptedActive(realm string) bool { return !contains(h.UndecryptedActive, realm) }

// Serves reports whether the server serves a record at a version or a later one.
func (h *Heartbeat) Serves(record, version string) bool {
	return Reached(h.Version, version) && !contains(h.Unreadable, record)
}

package heartbeat

import (
	"slices"
	"strings"
)

// UndecryptedAnnotation contains the names of Realms whose next signing key the server has not
// decrypted yet, or AllRealms. It is absent if there are none.
const UndecryptedAnnotation = "auth.realmkeeper.dev/undecrypted-realms"

// AllRealms replaces the names if there are more than MaxUndecrypted. Any Realm may then have such a key.
const AllRealms = "*"

// MaxUndecrypted is the maximum number of names in a Lease.
const MaxUndecrypted = 64

// maxName is the maximum length of a Realm's name.
const maxName = 63

// encodeUndecrypted returns the value of UndecryptedAnnotation. It is empty for no realms.
func encodeUndecrypted(realms []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(realms)))
	if len(sorted) > MaxUndecrypted {
		return AllRealms
	}
	return strings.Join(sorted, ",")
}

// parseUndecrypted returns the names in the value of UndecryptedAnnotation. A value that is too long is
// AllRealms.
func parseUndecrypted(value string) []string {
	switch {
	case value == "":
		return nil
	case len(value) > MaxUndecrypted*(maxName+1):
		return []string{AllRealms}
	}
	names := strings.Split(value, ",")
	if len(names) > MaxUndecrypted {
		return []string{AllRealms}
	}
	return names
}

// Decrypted reports whether the server has decrypted the next signing key of a Realm, or doesn't need
// to.
func (h Heartbeat) Decrypted(realm string) bool {
	return !slices.Contains(h.Undecrypted, realm) && !slices.Contains(h.Undecrypted, AllRealms)
}

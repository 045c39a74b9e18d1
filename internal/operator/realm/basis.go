package realm

import (
	"cmp"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// older reports whether the observed Realm is older than the one that its record implements. A decision
// that is based on it could undo a newer one.
func older(seen *observed, current *record.Realm) bool {
	observed := basis(seen)
	return len(observed.Older(&current.Basis)) > 0
}

// basis returns the version of the Realm that a decision is based on.
func basis(seen *observed) record.Basis { return record.Basis{Generation: seen.realm.Generation} }

// setBasis completes a desired record with its basis. The basis counts acknowledgements from the last
// change of what clients depend on, so that a rotation of keys or an edit without effect doesn't make the
// Realm wait.
func setBasis(seen *observed, current, desired *record.Realm) {
	desired.Basis = current.Basis
	switch unchanged := record.Equal(*current, *desired); {
	case seen.record == nil:
		desired.Basis = basis(seen)
	case unchanged && current.Basis.Generation == seen.realm.Generation:
	case unchanged || differInKeysOnly(*current, *desired):
		desired.Basis = basis(seen)
		desired.Basis.Content = cmp.Or(current.Basis.Content, seen.record.ResourceVersion)
	default:
		desired.Basis = basis(seen)
	}
}

// differInKeysOnly reports whether two records with the same basis are equal apart from their keys and
// those of the issuers. Clients depend on the first key that becomes Active.
func differInKeysOnly(before, after record.Realm) bool {
	if signingkey.ActiveID(before.Keys) == "" && signingkey.ActiveID(after.Keys) != "" {
		return false
	}
	before.Keys, after.Keys = nil, nil
	before.Issuers, after.Issuers = withoutIssuerKeys(before.Issuers), withoutIssuerKeys(after.Issuers)
	return record.Equal(before, after)
}

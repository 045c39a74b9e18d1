package realm

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// nextBasis returns the basis of a desired record that implements a generation of the Realm. current is the
// record, which is stored in a Secret unless that is nil. The basis counts acknowledgements from the last
// change of what clients depend on, so that a rotation of keys or an edit without effect doesn't make the
// Realm wait.
func nextBasis(generation int64, current record.Realm, stored *corev1.Secret, desired record.Realm) record.Basis {
	next := record.Basis{Generation: generation}
	desired.Basis = current.Basis
	switch unchanged := record.Equal(current, desired); {
	case stored == nil:
	case unchanged && current.Basis.Generation == generation:
		return current.Basis
	case unchanged || differInKeysOnly(current, desired):
		next.ContentVersion = cmp.Or(current.Basis.ContentVersion, stored.ResourceVersion)
	}
	return next
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

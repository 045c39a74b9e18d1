package apiclient

import (
	"cmp"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// basis returns the versions of the objects that a decision is based on. The Realm must exist.
func basis(seen *observed) record.Basis {
	b := record.Basis{Generation: seen.client.Generation, RealmGeneration: seen.realm.Generation}
	if namespace := seen.namespace; namespace != nil && selectsLabels(seen.realm) {
		b.Namespace = record.NamespaceBasis{UID: namespace.UID, Version: namespace.ResourceVersion, Labels: record.DigestOfLabels(namespace.Labels)}
	}
	return b
}

// selectsLabels reports whether any grant of the Realm selects namespaces by their labels.
func selectsLabels(realm *v1alpha1.Realm) bool {
	for i := range realm.Spec.Grants {
		if realm.Spec.Grants[i].Namespaces.Selector != nil {
			return true
		}
	}
	return false
}

// lagging returns the observed objects that are older than those that the client's record implements. A
// decision that is based on them could undo a newer one.
func lagging(seen *observed) []record.Input {
	if seen.record == nil || seen.realm == nil {
		return nil
	}
	b := basis(seen)
	return b.Older(&seen.current.Basis)
}

// setBasis completes a desired record with its basis. continuous reports whether a change of the secrets
// leaves workloads with a valid one, so that they don't depend on which token servers have loaded it.
func setBasis(seen *observed, desired *record.Client, continuous bool) {
	full, before := basis(seen), seen.current
	if seen.record == nil {
		desired.Basis = full
		return
	}
	content := cmp.Or(before.Basis.Content, seen.record.ResourceVersion)
	desired.Basis = before.Basis
	switch {
	case record.Equal(before, *desired):
		if full.Generation == before.Basis.Generation {
			return
		}
		desired.Basis.Generation, desired.Basis.Content = full.Generation, content
	case continuous && differInSecretsOnly(before, *desired):
		desired.Basis, desired.Basis.Content = full, content
	default:
		desired.Basis = full
	}
}

// differInSecretsOnly reports whether two records with the same basis are equal apart from their secrets.
func differInSecretsOnly(a, b record.Client) bool {
	a.Secrets, b.Secrets, a.SecretSerial, b.SecretSerial = nil, nil, 0, 0
	if a.Restored != nil && b.Restored != nil && a.Restored.At.Equal(b.Restored.At) {
		a.Restored, b.Restored = nil, nil // restored secrets only end
	}
	return record.Equal(a, b)
}

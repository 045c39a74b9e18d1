package apiclient

import (
	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
)

// coverage is what the best grant of a Realm gives an ApiClient.
type coverage struct{ grants.Coverage }

// covered returns the coverage of the client.
func covered(seen *request) coverage {
	asked := grants.Request{
		Realm: seen.realm, Issuer: seen.instance.Issuer(seen.realm.Name),
		Client: seen.client, NamespaceLabels: seen.namespaceLabels(), OtherNamespace: seen.otherNamespace,
	}
	return coverage{asked.Coverage()}
}

// includesNamespace accepts only clients in a namespace that a grant includes.
func (c *coverage) includesNamespace() *condition.Result {
	if c.Grant != nil {
		return nil
	}
	return notReady(v1beta1.ReasonNamespaceNotAllowed, "%s Add a grant for the namespace to spec.grants of the Realm, or create the client in a namespace that has one.", c.Problem())
}

// covers accepts only clients that a single grant covers.
func (c *coverage) covers() *condition.Result {
	if c.Covers() {
		return nil
	}
	return notReady(v1beta1.ReasonNotGranted, "%s Change the client so that one grant covers it, or extend that grant in spec.grants of the Realm.", c.Problem())
}

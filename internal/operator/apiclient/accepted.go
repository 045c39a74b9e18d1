package apiclient

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// accepted returns the result for the Accepted condition. It is the result of the first rule that the
// client violates, if any, in the order in which users must fix violations. The rules are those that the
// schema cannot check, usually because they depend on other objects.
func accepted(seen *observed) condition.Result {
	if violation := seen.realmExists(); violation != nil {
		return *violation
	}
	c := covered(&seen.request)
	for _, check := range []func() *condition.Result{
		seen.clientIDNotReleased,
		c.includesNamespace,
		seen.scopesInRealm,
		seen.audiencesInRealm,
		seen.issuersInRealm,
		seen.claimsInRealm,
		seen.claimsWithinSize,
		c.covers,
		func() *condition.Result { return c.tokenWithinSize(&seen.request) },
		seen.lifetimeWithinRealm,
		seen.clientIDFree,
		seen.secretsManaged,
		seen.secretOutsideInstallation,
		seen.secretNameFree,
		seen.secretProvided,
		seen.hashesSupported,
		seen.publicKeysSupported,
		seen.serviceAccountExists,
	} {
		if violation := check(); violation != nil {
			return *violation
		}
	}
	message := fmt.Sprintf("The spec is valid, and grant %q of Realm %q allows the client.", c.Grant.Name, seen.realm.Name)
	if missing := missingAccounts(seen); len(missing) > 0 {
		message += " These service accounts do not exist yet: " + condition.Names(missing) + "."
	}
	message += record.DescribeReservedClaims(seen.realm.Spec.Claims, seen.client.Spec.Claims) + releaseNote(seen.client) + subjectNote(seen)
	return condition.Result{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonAccepted, Message: message}
}

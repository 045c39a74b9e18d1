package tenancy_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// TestTakeover is the takeover corpus: attempts of a tenant to obtain, interrupt, or impersonate the
// clients of another tenant. The victims are one client with an explicit client ID, and one with the
// default client ID that also holds a subject of a trusted issuer. They fetch tokens from every token
// server throughout, and nothing about them may change. The attempts run in parallel, and each
// attacker has exactly the permissions that make it dangerous, never those of an administrator.
func TestTakeover(t *testing.T) {
	b := newBank(t, scenario.Running(t, env.Start(t)))
	stop := b.watchVictims(t)
	t.Run("attempts", func(t *testing.T) {
		for name, attempt := range map[string]func(*testing.T, *bank){
			"squatting before a grant":                 testSquatBeforeGrant,
			"squatting after a grant":                  testSquatAfterGrant,
			"recreated victim":                         testRecreatedVictim,
			"tokens of a deleted predecessor":          testTokensOfPredecessor,
			"restore of an older object":               testRestoredObject,
			"namespace label change":                   testNamespaceLabelChange,
			"lost and regained grant":                  testLostAndRegainedGrant,
			"prefixes against default client IDs":      testPrefixesAgainstDefaultIDs,
			"combination of two grants":                testCombinedGrants,
			"released clients":                         testReleasedClients,
			"client ID in another realm":               testOtherRealm,
			"client ID of a deleted realm":             testDeletedRealm,
			"many competitors":                         testManyCompetitors,
			"provided Secret of another namespace":     testForeignProvidedSecret,
			"credentials Secret of another client":     testForeignCredentialsSecret,
			"metadata for other controllers":           testForeignMetadata,
			"owner references to the victim":           testForeignOwnerReferences,
			"labels on foreign Secrets and look-alike": testForeignLabels,
			"introspection of foreign tokens":          testForeignIntrospection,
			"forged status":                            testForgedStatus,
			"service account of the same name":         testForeignServiceAccount,
			"subject of another tenant":                testForeignSubject,
			"subject before its owner":                 testSquattedSubject,
			"claims of another tenant's repository":    testForeignClaims,
			"subject after a lost grant":               testSubjectAfterLostGrant,
			"recreated holder of a subject":            testRecreatedSubjectHolder,
			"subject in another realm":                 testSubjectInOtherRealm,
			"renamed and re-pointed issuer":            testRepointedIssuer,
			"exchanges of another tenant":              testForeignExchange,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				attempt(t, b)
				b.expectUnharmed(t)
				b.revokeAll(t)
			})
		}
	})
	stop()
	b.expectUnharmed(t)
}

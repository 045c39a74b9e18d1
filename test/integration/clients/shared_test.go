package clients_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// TestClients runs the tests that can share an installation. They run in parallel, and each one has
// its own realms and namespaces.
func TestClients(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{MaximumTokenLifetime: "2h"})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	for name, test := range map[string]func(*testing.T, *install.Installation){
		"client before its realm":        testClientBeforeRealm,
		"Secret before its client":       testSecretMetadataBeforeClient,
		"other Secret is not adopted":    testOtherSecretIsNotAdopted,
		"hashed secret":                  testHashedSecret,
		"migration to provided secret":   testMigrationToProvidedSecret,
		"service accounts":               testServiceAccounts,
		"deleted service account":        testDeletedServiceAccount,
		"tokens per second":              testTokensPerSecond,
		"fixed claims":                   testFixedClaims,
		"rejected specs":                 testRejectedSpecs,
		"new namespace limits a prefix":  testNewNamespaceLimitsPrefix,
		"record labels are restored":     testRecordLabelsAreRestored,
		"credentials Secret is restored": testCredentialsSecretIsRestored,
		"revoke and restore access":      testRevokeAndRestoreAccess,
		"lost signing keys":              testLostSigningKeys,
		"status of a token":              testStatusOfToken,
		"status of a revoked token":      testStatusOfRevokedToken,
		"status list is disabled":        testStatusListDisabled,
		"status list over HTTP":          testStatusListOverHTTP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, inst)
		})
	}
}

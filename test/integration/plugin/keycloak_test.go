package plugin_test

import (
	"path/filepath"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The clients of an export of Keycloak become Ready, and those with a secret get tokens with it. A
// disabled client gets none.
func testKeycloak(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	team, out := cluster.Namespace(t), filepath.Join(t.TempDir(), "shop")
	export := filepath.Join(exportDir(t, "keycloak"), "realm.json")
	report := importClients(t, cluster, "keycloak", export, "--realm", "keycloak", "-n", team, "--output-dir", out, "--report", "json")
	if ready := apply(t, inst, team, out); ready != report.Clients-1 {
		t.Errorf("%d ApiClients are Ready, want %d", ready, report.Clients-1)
	}
	endpoint := tokenEndpoint(t, inst, "keycloak")
	secrets := map[string]string{
		"billing": "not+a%20secret:100%-billing", "Invoices_Service": "not-a-secret-of-Invoices_Service",
		"audience-of-a-client": "not-a-secret-of-audience-of-a-client",
	}
	for _, s := range inst.Servers() {
		requestAll(t, "the secrets encoded", s, endpoint, secrets, tokenEncoded)
		requestAll(t, "the secrets as they are", s, endpoint, secrets, tokenRaw)
		requestAll(t, "a disabled client", s, endpoint, map[string]string{"disabled": "not-a-secret-of-disabled"}, rejected)
	}
}

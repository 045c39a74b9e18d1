package beside_test

import (
	"os"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// apacheMain is what the configurations on the page assume.
const apacheMain = `ServerRoot DIR
ServerName 127.0.0.1
Listen LISTEN
PidFile apache.pid
ErrorLog /dev/stderr
User www-data
Group www-data
LoadModule mpm_event_module MODULES/mod_mpm_event.so
LoadModule authn_core_module MODULES/mod_authn_core.so
LoadModule authz_core_module MODULES/mod_authz_core.so
LoadModule authz_user_module MODULES/mod_authz_user.so
LoadModule proxy_module MODULES/mod_proxy.so
LoadModule proxy_http_module MODULES/mod_proxy_http.so
`

func authOpenIDC(t *testing.T, s setup) instance {
	return s.apache(t, "auth_openidc", "OIDC_CLAIM_client_id", "exec")
}

// modOAuth2 runs Apache with a bundle of the system's CAs that contains the CA of the token service, as after
// update-ca-certificates.
func modOAuth2(t *testing.T, s setup) instance {
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	var all []byte
	for _, path := range []string{bundle, s.authority} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, content...)
	}
	return s.apache(t, "oauth2", "OAUTH2_CLAIM_client_id", "mount --bind "+s.write(t, "bundle.crt", string(all))+" "+bundle+" && exec")
}

// apache starts Apache with the configuration on the page. The shell executes before, followed by the program.
func (s setup) apache(t *testing.T, module, header, before string) instance {
	call, api := httpCalls(t, s.address, header)
	main := strings.NewReplacer("DIR", s.dir, "LISTEN", s.address, "MODULES", "/usr/lib/apache2/modules").Replace(
		apacheMain + "LoadModule " + module + "_module MODULES/mod_" + module + ".so\n")
	config := s.write(t, "apache.conf", main+s.fill(s.block(t, "apache"), "orders.internal:8080", api))
	s.start(t, process.Command{Name: "apache", Path: "/usr/bin/unshare", Args: []string{
		"--mount", "sh", "-c", before + " /usr/sbin/apache2 -f " + config + " -DFOREGROUND",
	}}, reachable(s.address))
	return instance{call: call}
}

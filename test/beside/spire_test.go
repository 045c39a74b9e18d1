//go:build beside

package beside_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

const accepted = "an access token"

// TestSPIRE gets tokens with JWT-SVIDs of SPIRE, which rotates its key, and stops.
func TestSPIRE(t *testing.T) {
	if !selected(t, spireHeading) {
		return
	}
	s := startSPIRE(t)
	seen := map[string]string{}
	valid := s.svid(t, "billing", s.issuer)
	eventually(t, time.Minute, "the first token", func() bool {
		seen["valid"] = s.present(t, valid)
		return seen["valid"] == accepted
	})
	out, err := exec.CommandContext(t.Context(), "sh", "-c", s.fill(s.block(t, "sh"),
		"spire-agent api fetch jwt", s.fetch(), "https://api.example.com/acme-spiffe", s.issuer)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"access_token":`) {
		t.Errorf("the command on the page: %v\n%s", err, out)
	}
	seen["another workload"] = s.present(t, s.svid(t, "other", s.issuer))
	seen["another audience"] = s.present(t, s.svid(t, "billing", otherAudience))
	seen["two audiences"] = s.present(t, s.svid(t, "billing", s.issuer, otherAudience))
	seen["other CA"] = s.presentTo(t, s.service.issuer(spireOtherCA), s.svid(t, "billing", s.service.issuer(spireOtherCA)))
	brief := s.svid(t, "brief", s.issuer)
	if got := s.present(t, brief); got != accepted {
		t.Errorf("the SVID before it expires: %s", got)
	}
	time.Sleep(briefly + 31*time.Second) // The clocks can differ by 30 seconds.
	seen["expired"] = s.present(t, brief)
	s.suspend(t, valid, true)
	seen["suspended"] = s.present(t, valid)
	s.suspend(t, valid, false)

	resume := pause(t, s.process)
	seen["no response"] = s.present(t, s.svid(t, "billing", s.issuer))
	resume()
	s.stopServer(t)
	time.Sleep(outage)
	seen["outage"] = s.present(t, s.svid(t, "billing", s.issuer))
	s.startServer(t, "ec-p256")

	former := s.keys(t, "show").Active.ID
	seen["new key"] = s.rotate(t)
	seen["former key"] = s.present(t, valid)
	s.server(t, "localauthority", "jwt", "taint", "-authorityID", former)
	s.server(t, "localauthority", "jwt", "revoke", "-authorityID", former)
	seen["revoked key"] = s.present(t, valid)
	s.stopServer(t)
	s.startServer(t, "rsa-2048")
	seen["new algorithm"] = s.rotate(t)
	seen["revoked key after the next load"] = s.present(t, valid)

	if diff := gocmp.Diff(s.outcomes("Request"), seen); diff != "" {
		t.Errorf("(-docs/works-with/%s +seen):\n%s", spirePage, diff)
	}
}

// spire is SPIRE with one node, and a realm that trusts it.
type spire struct {
	setup
	service *service
	port    string // of the server's API
	process *process.Process
}

// The realms that trust SPIRE. The second one has another CA for it.
const (
	spireRealm   = "acme-spiffe"
	spireOtherCA = "other-ca"
)

func startSPIRE(t *testing.T) *spire {
	t.Helper()
	s := &spire{service: startService(t), port: reservePort(t)}
	s.setup = s.service.setup(t, spirePage, spireHeading, orders, acme)
	certificate := s.writeCertificate(t)
	s.startServer(t, "ec-p256")
	token := strings.TrimPrefix(strings.TrimSpace(s.server(t, "token", "generate", "-spiffeID", "spiffe://example.org/node")), "Token: ")
	s.start(t, process.Command{Name: "spire-agent", Path: built("spire-agent"), Args: []string{"run", "-joinToken", token, "-config", s.write(t, "agent.conf", strings.NewReplacer("PORT", s.port, "DIR", s.dir).Replace(spireAgent))}}, func() error {
		return exec.CommandContext(t.Context(), built("spire-agent"), "healthcheck", "-socketPath", s.dir+"/agent.sock").Run()
	})
	for name, ttl := range map[string]string{"billing": "300", "other": "300", "brief": strconv.Itoa(int(briefly.Seconds()))} {
		s.server(t, "entry", "create", "-parentID", "spiffe://example.org/node", "-spiffeID", "spiffe://example.org/"+name,
			"-selector", "unix:uid:"+strconv.Itoa(os.Getuid()), "-jwtSVIDTTL", ttl)
	}
	realm, client := &v1beta1.Realm{}, &v1beta1.ApiClient{}
	for i, object := range strings.Split(s.block(t, "yaml"), "\n---\n") {
		if err := yaml.UnmarshalStrict([]byte(object), []any{realm, client}[i]); err != nil {
			t.Fatal(err)
		}
	}
	realm.TypeMeta, client.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{} // write adds them.
	keys := &realm.Spec.TrustedIssuers[0].Keys
	keys.JWKSURI, keys.CABundle = "https://"+s.address, v1beta1.IssuerCABundle(certificate)
	untrusting := realm.DeepCopy()
	untrusting.Name = spireOtherCA
	authority, err := os.ReadFile(s.authority)
	if err != nil {
		t.Fatal(err)
	}
	untrusting.Spec.TrustedIssuers[0].Keys.CABundle = v1beta1.IssuerCABundle(authority)
	brief := client.Spec.Identities[0]
	brief.Name, brief.Subject = "brief", "spiffe://example.org/brief"
	client.Spec.Identities = append(client.Spec.Identities, brief)
	another := client.DeepCopy()
	another.Name, another.Spec.RealmRef.Name = "untrusting", spireOtherCA
	s.service.realms[spireRealm], s.service.realms[spireOtherCA] = realm, untrusting
	s.service.clients[spireRealm], s.service.clients[spireOtherCA] = client, another
	s.service.write(t)
	s.issuer = s.service.issuer(spireRealm)
	return s
}

const spireServer = `server {
  bind_address = "127.0.0.1"
  bind_port = "PORT"
  socket_path = "DIR/server.sock"
  trust_domain = "example.org"
  data_dir = "DIR"
  jwt_key_type = "KEY_TYPE"
  FEDERATION
}
plugins {
  DataStore "sql" { plugin_data { database_type = "sqlite3", connection_string = "DIR/datastore.sqlite3" } }
  KeyManager "disk" { plugin_data { keys_path = "DIR/keys.json" } }
  NodeAttestor "join_token" { plugin_data {} }
}
`

const spireAgent = `agent {
  server_address = "127.0.0.1"
  server_port = "PORT"
  socket_path = "DIR/agent.sock"
  trust_domain = "example.org"
  data_dir = "DIR/agent"
  insecure_bootstrap = true
}
plugins {
  KeyManager "memory" { plugin_data {} }
  NodeAttestor "join_token" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data {} }
}
`

// startServer starts the server, whose next key for JWT-SVIDs has this type.
func (s *spire) startServer(t *testing.T, keyType string) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	federation := strings.NewReplacer("0.0.0.0", host, "8443", port, "/etc/spire", s.dir).Replace(s.block(t, "text"))
	config := strings.NewReplacer("PORT", s.port, "DIR", s.dir, "KEY_TYPE", keyType, "FEDERATION", federation).Replace(spireServer)
	s.process = s.start(t, process.Command{Name: "spire-server", Path: built("spire-server"), Args: []string{"run", "-config", s.write(t, "server.conf", config)}}, func() error {
		return exec.CommandContext(t.Context(), built("spire-server"), "healthcheck", "-socketPath", s.dir+"/server.sock").Run()
	})
}

func (s *spire) stopServer(t *testing.T) {
	t.Helper()
	if err := s.process.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
}

// server runs a command of spire-server, and returns its output.
func (s *spire) server(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), built("spire-server"), append(arguments, "-socketPath", s.dir+"/server.sock")...).CombinedOutput()
	if err != nil {
		t.Fatalf("spire-server %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// fetch is the beginning of a command that gets an SVID.
func (s *spire) fetch() string {
	return built("spire-agent") + " api fetch jwt -socketPath " + s.dir + "/agent.sock"
}

// svid returns an SVID of a workload.
func (s *spire) svid(t *testing.T, workload string, audiences ...string) string {
	t.Helper()
	var token string
	eventually(t, time.Minute, "the agent to have the workload", func() bool {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", s.fetch()+" -spiffeID spiffe://example.org/"+workload+" -audience "+strings.Join(audiences, ",")+" -output json").Output()
		var response []struct{ Svids []struct{ Svid string } }
		if err != nil || json.Unmarshal(out, &response) != nil || len(response) == 0 || len(response[0].Svids) == 0 {
			return false
		}
		token = response[0].Svids[0].Svid
		return true
	})
	return token
}

// present requests tokens in both ways, and returns the results. They are the same if both succeed.
func (s *spire) present(t *testing.T, svid string) string {
	t.Helper()
	return s.presentTo(t, s.issuer, svid)
}

func (s *spire) presentTo(t *testing.T, issuer, svid string) string {
	t.Helper()
	var results []string
	for _, form := range []url.Values{
		{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {svid}},
		{"grant_type": {"client_credentials"}, "client_assertion": {svid}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-spiffe"}},
	} {
		response, err := s.service.client.PostForm(issuer+"/oauth2/token", form)
		if err != nil {
			t.Fatal(err)
		}
		var body struct{ Error string }
		err = json.NewDecoder(response.Body).Decode(&body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, cond(response.StatusCode == http.StatusOK, accepted, response.Status[:3]+" "+body.Error))
	}
	return strings.Join(slices.Compact(results), " or ")
}

// authorities is what the commands for the keys of JWT-SVIDs return.
type authorities struct {
	Active struct {
		ID string `json:"authority_id"`
	}
	PreparedAuthority struct {
		ID string `json:"authority_id"`
	} `json:"prepared_authority"`
}

func (s *spire) keys(t *testing.T, command string) authorities {
	t.Helper()
	var a authorities
	out := s.server(t, "localauthority", "jwt", command, "-output", "json")
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

// rotate signs with a new key immediately, and presents SVIDs with it until one is accepted.
func (s *spire) rotate(t *testing.T) string {
	t.Helper()
	id := s.keys(t, "prepare").PreparedAuthority.ID
	s.server(t, "localauthority", "jwt", "activate", "-authorityID", id)
	// The agent remembers other SVIDs for longer.
	eventually(t, time.Minute, "an SVID with the new key", func() bool { return keyID(t, s.svid(t, "brief", s.issuer)) == id })
	for started := time.Now(); time.Since(started) < 75*time.Second; time.Sleep(briefly / 2) {
		if s.present(t, s.svid(t, "brief", s.issuer)) == accepted {
			return accepted + " within 75 s"
		}
	}
	return s.present(t, s.svid(t, "brief", s.issuer))
}

// suspend suspends or resumes the client, and waits until that has an effect on an SVID.
func (s *spire) suspend(t *testing.T, svid string, suspended bool) {
	t.Helper()
	s.service.clients[spireRealm].Spec.Suspend = suspended
	s.service.write(t)
	eventually(t, time.Minute, "the suspension to change", func() bool { return (s.present(t, svid) == accepted) != suspended })
}

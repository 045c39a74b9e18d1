package beside_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The realms. Two of them get a new signing key while the programs run.
const (
	acme       = "acme"        // gets a new key with the same algorithm
	moved      = "moved"       // gets a new key with RS256
	acmeRSA    = "acme-rsa"    // the same with RS256
	movedRSA   = "moved-rsa"   // gets a new key with ES256, has one with RS256
	otherRealm = "other-realm" // has the same scopes and audiences
)

// algorithms are all signing algorithms but ES256, the default. Each has a realm of its own.
var algorithms = []v1beta1.SigningAlgorithm{
	v1beta1.SigningAlgorithmES384, v1beta1.SigningAlgorithmRS256, v1beta1.SigningAlgorithmPS256, v1beta1.SigningAlgorithmEdDSA,
}

func realmOf(algorithm v1beta1.SigningAlgorithm) string { return strings.ToLower(string(algorithm)) }

// api is what a program protects.
type api struct {
	name, audience      string
	scopes, wrongScopes []string
	rsa                 bool // whether its program accepts only RS256
}

// in returns the realm that the API uses instead of acme or moved.
func (a *api) in(realm string) string {
	switch {
	case a.rsa && realm == acme:
		return acmeRSA
	case a.rsa && realm == moved:
		return movedRSA
	}
	return realm
}

const otherAudience = "https://stock.acme.example"

var (
	orders = &api{name: "orders", audience: "https://orders.acme.example", scopes: []string{"orders.read"}, wrongScopes: []string{"orders.write"}}
	// The scopes of RabbitMQ name permissions. The wrong scopes are some of the right ones.
	rabbit = &api{
		name: "rabbit", audience: "rabbit",
		scopes: []string{"rabbit.configure:*/*", "rabbit.write:*/*", "rabbit.read:*/*"}, wrongScopes: []string{"rabbit.read:*/*"},
	}
	stores = &api{name: "stores", audience: "https://fga.acme.example", scopes: []string{"fga.read"}, wrongScopes: []string{"fga.write"}, rsa: true}
	apis   = []*api{orders, rabbit, stores}
)

// The names of the clients of each API, without the name of the API.
const (
	clientUsual         = "usual"
	clientTwoAudiences  = "two-audiences"
	clientOtherAudience = "other-audience"
	clientWrongScope    = "wrong-scope"
	clientBrief         = "brief" // gets tokens that expire after briefly
	clientSuspended     = "suspended"
	clientBound         = "bound"
	clientAgent         = "agent" // acts for clientUsual
	clientIntrospects   = "api"
)

const (
	briefly      = 10 * time.Second
	publishAhead = 10 * time.Minute // the minimum
)

// service is a local issuer in a process of its own, so that it can be stopped and paused.
type service struct {
	dir     string
	port    *controlplane.Port
	process *process.Process
	client  *http.Client
	realms  map[string]*v1beta1.Realm
	clients map[string]*v1beta1.ApiClient // by name
}

func startService(t *testing.T) *service {
	t.Helper()
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	s := &service{dir: t.TempDir(), port: port, realms: map[string]*v1beta1.Realm{}, clients: map[string]*v1beta1.ApiClient{}}
	for _, name := range []string{acme, moved, otherRealm} {
		s.addRealm(name, v1beta1.SigningAlgorithmES256)
	}
	for _, name := range []string{acmeRSA, movedRSA} {
		s.addRealm(name, v1beta1.SigningAlgorithmRS256)
	}
	for _, algorithm := range algorithms {
		s.addRealm(realmOf(algorithm), algorithm)
	}
	s.write(t)
	s.start(t)
	t.Cleanup(func() { s.stop(t) })
	return s
}

func (s *service) addRealm(name string, algorithm v1beta1.SigningAlgorithm) {
	realm := install.Realm(name, func(r *v1beta1.Realm) {
		r.Spec.Audiences = []string{orders.audience, rabbit.audience, stores.audience, otherAudience}
		r.Spec.Scopes = slices.Concat(orders.scopes, orders.wrongScopes, rabbit.scopes, stores.scopes, stores.wrongScopes)
		r.Spec.TokenLifetime = &v1beta1.Duration{Duration: time.Hour}
		r.Spec.Signing = v1beta1.Signing{Algorithm: algorithm, PublishAhead: &v1beta1.Duration{Duration: publishAhead}}
	})
	s.realms[name] = realm
	for _, a := range apis {
		realm.Spec.Exchanges = append(realm.Spec.Exchanges, exchange(name, a))
		add := func(client string, change func(*v1beta1.ApiClientSpec)) {
			c := install.ApiClient(namespace(name), a.name+"-"+client, name, func(c *v1beta1.ApiClient) {
				c.Spec.Audiences, c.Spec.Scopes = v1beta1.Audiences{a.audience}, a.scopes
				change(&c.Spec)
			})
			s.clients[clientID(name, a, client)] = c
		}
		add(clientUsual, func(*v1beta1.ApiClientSpec) {})
		add(clientSuspended, func(*v1beta1.ApiClientSpec) {})
		add(clientTwoAudiences, func(c *v1beta1.ApiClientSpec) { c.Audiences = append(c.Audiences, otherAudience) })
		add(clientOtherAudience, func(c *v1beta1.ApiClientSpec) { c.Audiences = v1beta1.Audiences{otherAudience} })
		add(clientWrongScope, func(c *v1beta1.ApiClientSpec) { c.Scopes = a.wrongScopes })
		add(clientBrief, func(c *v1beta1.ApiClientSpec) { c.TokenLifetime = &v1beta1.Duration{Duration: briefly} })
		add(clientBound, func(c *v1beta1.ApiClientSpec) { c.SenderConstraint = v1beta1.SenderConstraintDPoP })
		add(clientAgent, func(c *v1beta1.ApiClientSpec) { c.Scopes, c.DelegatedScopes = nil, a.scopes })
		add(clientIntrospects, func(c *v1beta1.ApiClientSpec) {
			c.Audiences, c.Scopes, c.Introspection.Audiences = nil, nil, v1beta1.Audiences{a.audience}
		})
	}
}

// exchange lets the agent act for clientUsual.
func exchange(realm string, a *api) v1beta1.Exchange {
	namespaces := v1beta1.ExchangeNamespaces{Names: []string{namespace(realm)}}
	return v1beta1.Exchange{
		Name:      a.name,
		Actors:    v1beta1.ExchangeClients{Namespaces: namespaces, ClientIDs: []string{clientID(realm, a, clientAgent)}},
		Subjects:  v1beta1.ExchangeSubjects{Clients: &v1beta1.ExchangeClients{Namespaces: namespaces}, Audiences: v1beta1.ExchangeAudiences{a.audience}},
		Audiences: v1beta1.ExchangeAudiences{a.audience}, Scopes: a.scopes,
	}
}

func namespace(realm string) string { return realm + "-apps" }

func clientID(realm string, a *api, client string) string {
	return namespace(realm) + "." + a.name + "-" + client
}

// write writes the objects, which the local issuer then loads.
func (s *service) write(t *testing.T) {
	t.Helper()
	var file bytes.Buffer
	add := func(kind string, object any) {
		content, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&file, "---\napiVersion: %s\nkind: %s\n%s", v1beta1.GroupVersion, kind, content)
	}
	for _, realm := range s.realms {
		add("Realm", realm)
	}
	for _, c := range s.clients {
		add("ApiClient", c)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "objects.yaml"), file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *service) credentials() string { return filepath.Join(s.dir, "credentials") }

// authority is the path of the CA certificate of the token service.
func (s *service) authority() string { return filepath.Join(s.credentials(), v1beta1.SecretKeyCACrt) }

func (s *service) issuer(realm string) string {
	return "https://localhost:" + strconv.Itoa(s.port.Number()) + "/" + realm
}

// secret returns the secret of a client.
func (s *service) secret(t *testing.T, realm string, a *api, client string) string {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(s.credentials(), namespace(a.in(realm)), a.name+"-"+client, v1beta1.SecretKeyClientSecret))
	if err != nil {
		t.Fatal(err)
	}
	return string(secret)
}

// binaries is the environment variable with the directory of the product's binaries.
const binaries = "REALMKEEPER_BINARIES"

// start starts the local issuer and waits until all clients can get tokens.
func (s *service) start(t *testing.T) {
	t.Helper()
	path := filepath.Join(os.Getenv(binaries), "realmkeeper-local")
	running, err := process.Start(process.Command{Name: "realmkeeper-local", Path: path, Dir: s.dir, Args: []string{
		"-f", filepath.Join(s.dir, "objects.yaml"), "--port", strconv.Itoa(s.port.Number()),
		"--credentials-dir", s.credentials(), "--state-dir", filepath.Join(s.dir, "state"),
	}})
	if err != nil {
		t.Fatalf("%v; run make beside, which builds it and sets %s", err, binaries)
	}
	s.process = running
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	err = running.Await(ctx, func(context.Context) error {
		for _, c := range s.clients {
			if _, err := os.Stat(filepath.Join(s.credentials(), c.Namespace, c.Name, v1beta1.SecretKeyClientSecret)); err != nil {
				return err
			}
		}
		return s.trust()
	})
	if err == nil {
		err = running.Await(ctx, func(context.Context) error {
			for realm := range s.realms {
				if _, err := s.token(t, realm, orders, clientUsual); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// trust creates the HTTP client that trusts the CA of the token service.
func (s *service) trust() error {
	certificate, err := os.ReadFile(s.authority())
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	s.client = &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
		Timeout:   10 * time.Second,
	}
	return nil
}

// stop stops the local issuer. Connections to it are then refused.
func (s *service) stop(t *testing.T) {
	t.Helper()
	if err := s.process.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
}

// pause lets connections to the local issuer succeed, but not get a response, until resume is called.
func (s *service) pause(t *testing.T) (resume func()) {
	t.Helper()
	return pause(t, s.process)
}

// pause stops all threads of a process until resume is called.
func pause(t *testing.T, p *process.Process) (resume func()) {
	t.Helper()
	signal := func(signal syscall.Signal) {
		if err := syscall.Kill(p.PID(), signal); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	// On a busy machine, some threads still respond for a while.
	eventually(t, 10*time.Second, "all threads to stop", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
		return err == nil && !slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			return err == nil && !bytes.Contains(stat, []byte(") T "))
		})
	})
	return func() { signal(syscall.SIGCONT) }
}

var errToken = errors.New("no token")

// token requests a token for a client, with the scopes and audiences that it has.
func (s *service) token(t *testing.T, realm string, a *api, client string) (string, error) {
	t.Helper()
	realm = a.in(realm)
	form := url.Values{"grant_type": {"client_credentials"}}
	endpoint := s.issuer(realm) + "/oauth2/token"
	proof := ""
	switch client {
	case clientAgent:
		subject, err := s.token(t, realm, a, clientUsual)
		if err != nil {
			return "", err
		}
		form = url.Values{
			"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
			"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
			"subject_token":      {subject}, "audience": {a.audience},
		}
	case clientBound:
		proof = dpopProof(t, endpoint)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(clientID(realm, a, client), s.secret(t, realm, a, client))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if proof != "" {
		request.Header.Set("DPoP", proof)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var body struct {
		Token       string `json:"access_token"`
		Description string `json:"error_description"`
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil || body.Token == "" {
		return "", fmt.Errorf("%w for %s of %s: %s %s", errToken, client, realm, response.Status, body.Description)
	}
	return body.Token, nil
}

// mustToken is token for clients that can get one.
func (s *service) mustToken(t *testing.T, realm string, a *api, client string) string {
	t.Helper()
	token, err := s.token(t, realm, a, client)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// dpopProof returns a proof for a token request (RFC 9449).
func dpopProof(t *testing.T, endpoint string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	options := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"jti": rand.Text(), "htm": http.MethodPost, "htu": endpoint, "iat": time.Now().Unix()}
	proof, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return proof
}

// rotate requests the next signing keys, and waits until they are published.
func (s *service) rotate(t *testing.T) {
	t.Helper()
	for _, realm := range []string{acme, acmeRSA} {
		s.realms[realm].Spec.Signing.RotationRequestTime = &metav1.Time{Time: time.Now().Add(time.Second)}
	}
	s.realms[moved].Spec.Signing.Algorithm = v1beta1.SigningAlgorithmRS256
	s.realms[movedRSA].Spec.Signing.Algorithm = v1beta1.SigningAlgorithmES256
	s.write(t)
	for _, realm := range []string{acme, moved, acmeRSA, movedRSA} {
		eventually(t, time.Minute, "the next key to be published", func() bool { return s.keys(t, realm) == 2 })
	}
}

// keys returns the numbers of published keys of a realm.
func (s *service) keys(t *testing.T, realm string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.issuer(realm)+"/oauth2/jwks", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		t.Fatal(err)
	}
	return len(set.Keys)
}

// suspend suspends a client of each realm and API, and waits until it gets no tokens.
func (s *service) suspend(t *testing.T) {
	t.Helper()
	for id, c := range s.clients {
		if strings.HasSuffix(id, "-"+clientSuspended) {
			c.Spec.Suspend = true
		}
	}
	s.write(t)
	for _, realm := range []string{acme, moved} {
		for _, a := range apis {
			eventually(t, time.Minute, "the client to be suspended", func() bool {
				_, err := s.token(t, realm, a, clientSuspended)
				return err != nil
			})
		}
	}
}

// keyID returns the ID of the key that signed a token.
func keyID(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.RS256, jose.PS256, jose.EdDSA})
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Headers[0].KeyID
}

// eventually waits until a condition holds.
func eventually(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", limit, what)
		}
	}
}

package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

const header = "apiVersion: config.realmkeeper.dev/v1beta1\nkind: InstanceConfiguration\n"

const minimal = header + `
instanceDomain: example.com
security:
  defaultTokenLifetime: 5m
`

const full = header + `
instanceDomain: realmkeeper.localhost
externalPort: 8443
clusterDomain: k8s.example
watchNamespaces: [acme-apps, shop]
credentialsSecrets: {enabled: false}
commonLabels: {owner: platform}
security:
  defaultTokenLifetime: 1h
  maximumTokenLifetime: 12h
tokenServer:
  image: registry.example.com/realmkeeper:v1
  imagePullPolicy: Always
  imagePullSecrets: [{name: registry}]
  replicas: 3
  resources:
    requests: {cpu: 200m}
  nodeSelector: {disk: fast}
  tolerations: [{key: dedicated, operator: Exists}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
  priorityClassName: high
  affinity: {nodeAffinity: {}}
  podAnnotations: {team: platform}
  podLabels: {cost-center: a1}
  podSecurityContext: {runAsUser: 1000}
  securityContext: {capabilities: {drop: [ALL]}}
  extraEnv: [{name: GOMEMLIMIT, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}]
  extraArgs: [--drain-delay=20s]
  audit: None
  tracing: {endpoint: "http://collector:4318", samplePercentage: 10}
  trustedProxies: [10.0.0.0/8, "fd00::/8"]
  proxyProtocolFrom: [10.1.0.0/16]
  passthroughProxies: [10.2.0.0/16, "fd01::/64"]
  maxStaleness: 10m
  idleTimeout: 4m
  acceptedServiceAccountIssuers: [{issuer: "https://a.example.com", until: "2026-12-01T00:00:00Z"}]
testing:
  speedUp: 600
trustedIssuers: {allowLocalAddresses: true}
usage: {resolution: 6h, staleAfter: 720h}
logging: {level: debug}
keyEncryption:
  kms:
    image: registry.example.com/kms:v1
    imagePullPolicy: Always
    command: [/kms]
    args: [--region=eu]
    env: [{name: KEY, value: alias/realmkeeper}]
    envFrom: [{secretRef: {name: kms}}]
    volumes: [{name: pin, secret: {secretName: pin}}]
    volumeMounts: [{name: pin, mountPath: /etc/pin}]
    resources: {limits: {memory: 64Mi}}
    timeout: 5s
    decrypt: true
tls:
  secretName: api-tls
`

func lifetime(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func TestParse(t *testing.T) {
	tests := map[string]struct {
		yaml string
		want config.Instance
	}{
		"minimal configuration with defaults": {minimal, config.Instance{
			APIVersion: "config.realmkeeper.dev/v1beta1", Kind: "InstanceConfiguration",
			InstanceDomain: "example.com", ExternalPort: 443, ClusterDomain: "cluster.local", CredentialsSecrets: config.CredentialsSecrets{Enabled: new(true)},
			Security: config.Security{DefaultTokenLifetime: lifetime(5 * time.Minute), MaximumTokenLifetime: lifetime(24 * time.Hour)},
			TokenServer: config.TokenServer{Replicas: new(int32(2)), Audit: config.AuditStdout, NodeSelector: map[string]string{"kubernetes.io/os": "linux"}, Resources: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			}, PodSecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			}, SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}},
			TLS: config.TLS{Managed: &config.ManagedTLS{
				Lifetime: metav1.Duration{Duration: 87600 * time.Hour}, Overlap: metav1.Duration{Duration: 8760 * time.Hour},
			}},
			Testing: config.Testing{SpeedUp: 1},
			Usage:   config.Usage{Resolution: lifetime(time.Hour), StaleAfter: lifetime(2160 * time.Hour)},
			Logging: config.Logging{Level: config.LogInfo},
		}},
		"comment and document markers": {"# comment\n---\n" + minimal + "tls: {managed: {}}\n...\n", func() config.Instance {
			return *testkit.Value(config.Parse([]byte(minimal)))(t)
		}()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := testkit.Value(config.Parse([]byte(tc.yaml)))(t)
			testkit.Diff(t, "result", tc.want, *got, cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }))
		})
	}
}

// Each error is one line that names the key.
func TestParseRejectsInvalidConfiguration(t *testing.T) {
	with := func(old, replacement string) string {
		if !strings.Contains(full, old) {
			t.Fatalf("the full configuration does not contain %q", old)
		}
		return strings.Replace(full, old, replacement, 1)
	}
	tests := map[string]struct{ yaml, wantKey string }{
		"empty":                                {"", "apiVersion"},
		"another apiVersion":                   {with("v1beta1", "v2"), "apiVersion"},
		"another kind":                         {with("InstanceConfiguration", "Realm"), "kind"},
		"no domain":                            {with("instanceDomain: realmkeeper.localhost", ""), "instanceDomain"},
		"URL as domain":                        {with("realmkeeper.localhost", "https://example.com"), "instanceDomain"},
		"placeholder of install.yaml":          {with("realmkeeper.localhost", "INSTANCE_DOMAIN"), "instanceDomain"},
		"domain too long":                      {with("realmkeeper.localhost", strings.Repeat("a", 250)), "instanceDomain"},
		"invalid cluster domain":               {with("k8s.example", "k8s.example."), "clusterDomain"},
		"port too large":                       {with("8443", "65536"), "externalPort"},
		"pull secret without a name":           {with("name: registry", "name: \"\""), "tokenServer.imagePullSecrets[0].name"},
		"invalid namespace":                    {with("acme-apps, shop", "Acme"), "watchNamespaces"},
		"duplicate namespace":                  {with("acme-apps, shop", "shop, shop"), "watchNamespaces"},
		"default lifetime too short":           {with("1h", "9s"), "security.defaultTokenLifetime"},
		"default lifetime too long":            {with("1h", "24h1s"), "security.defaultTokenLifetime"},
		"fractional seconds":                   {with("1h", "10.5s"), "security.defaultTokenLifetime"},
		"maximum lifetime too long":            {with("12h", "25h"), "security.maximumTokenLifetime"},
		"default exceeds maximum":              {with("12h", "30m"), "security.maximumTokenLifetime"},
		"zero replicas":                        {with("replicas: 3", "replicas: 0"), "tokenServer.replicas"},
		"invalid quantity":                     {with("200m", "much"), "tokenServer.resources.requests.cpu"},
		"unknown pull policy":                  {with("Always", "Sometimes"), "tokenServer.imagePullPolicy"},
		"request exceeds its limit":            {with("requests: {cpu: 200m}", "{requests: {cpu: 2}, limits: {cpu: 1}}"), "tokenServer.resources.requests.cpu"},
		"invalid priority class":               {with("priorityClassName: high", "priorityClassName: Very High"), "tokenServer.priorityClassName"},
		"tracing endpoint is not a URL":        {with("http://collector:4318", "collector:4318"), "tokenServer.tracing.endpoint"},
		"sample percentage too large":          {with("samplePercentage: 10", "samplePercentage: 101"), "tokenServer.tracing.samplePercentage"},
		"unknown audit sink":                   {with("audit: None", "audit: stdout"), "tokenServer.audit"},
		"passthrough proxy is not a CIDR":      {with("fd01::/64", "fd01::/129"), "tokenServer.passthroughProxies[1]"},
		"passthrough with PROXY protocol":      {with("fd01::/64", "10.1.2.0/24"), "tokenServer.passthroughProxies[1] \"10.1.2.0/24\" overlaps tokenServer.proxyProtocolFrom[0]"},
		"resolution too fine":                  {with("6h", "30m"), "usage.resolution"},
		"resolution too coarse":                {with("6h", "25h"), "usage.resolution"},
		"stale within the resolution":          {with("720h", "5h"), "usage.staleAfter"},
		"staleness too short":                  {with("10m", "29s"), "tokenServer.maxStaleness"},
		"idle timeout too short":               {with("4m", "4s"), "tokenServer.idleTimeout must be between 5s and 1h, not 4s"},
		"issuer without a time":                {with(`, until: "2026-12-01T00:00:00Z"`, ""), "tokenServer.acceptedServiceAccountIssuers"},
		"idle timeout too long":                {with("4m", "61m"), "tokenServer.idleTimeout"},
		"invalid annotation key":               {with("{team: platform}", "{\"my team\": platform}"), "tokenServer.podAnnotations"},
		"invalid label key":                    {with("{cost-center: a1}", "{\"cost center\": a1}"), "tokenServer.podLabels"},
		"invalid common label":                 {with("{owner: platform}", "{owner: the platform}"), "commonLabels"},
		"root":                                 {with("runAsUser: 1000", "runAsUser: 0"), "runAsUser must not be 0"},
		"may run as root":                      {with("runAsUser: 1000", "runAsNonRoot: false"), "runAsNonRoot must be true"},
		"unconfined":                           {with("runAsUser: 1000", "seccompProfile: {type: Unconfined}"), "seccompProfile"},
		"SELinux options":                      {with("runAsUser: 1000", "seLinuxOptions: {level: s0}"), "seLinuxOptions"},
		"privileged container":                 {with("capabilities: {drop: [ALL]}", "privileged: true"), "tokenServer.securityContext"},
		"privilege escalation":                 {with("capabilities: {drop: [ALL]}", "allowPrivilegeEscalation: true"), "tokenServer.securityContext"},
		"container as root":                    {with("capabilities: {drop: [ALL]}", "runAsUser: 0"), "runAsUser must not be 0"},
		"added capability":                     {with("drop: [ALL]", "drop: [ALL], add: [NET_ADMIN]"), "tokenServer.securityContext.capabilities"},
		"capabilities that stay":               {with("drop: [ALL]", "drop: [NET_RAW]"), "tokenServer.securityContext.capabilities"},
		"variable that the operator sets":      {with("GOMEMLIMIT", "POD_NAME"), "tokenServer.extraEnv[0] must not set POD_NAME"},
		"invalid variable":                     {with("GOMEMLIMIT", "\"A B\""), "tokenServer.extraEnv[0].name"},
		"repeated variable":                    {with("extraEnv: [", "extraEnv: [{name: GOMEMLIMIT}, "), "tokenServer.extraEnv contains GOMEMLIMIT twice"},
		"flag that disables auditing":          {with("--drain-delay=20s", "--audit-log="), "tokenServer.extraArgs[0] must not set --audit-log"},
		"flag with one dash":                   {with("--drain-delay=20s", "-audit-log="), "tokenServer.extraArgs[0]"},
		"invalid node label key":               {with("{disk: fast}", "{\"my disk\": fast}"), "tokenServer.nodeSelector"},
		"unknown toleration operator":          {with("operator: Exists", "operator: Is"), "tokenServer.tolerations[0].operator"},
		"no maximum skew":                      {with("maxSkew: 1, ", ""), "tokenServer.topologySpreadConstraints[0].maxSkew"},
		"no topology key":                      {with("topologyKey: zone, ", ""), "tokenServer.topologySpreadConstraints[0].topologyKey"},
		"unknown unsatisfiable policy":         {with("DoNotSchedule", "Hope"), "tokenServer.topologySpreadConstraints[0].whenUnsatisfiable"},
		"unknown log level":                    {with("level: debug", "level: warn"), `logging.level must be info or debug, not "warn"`},
		"speed-up too large":                   {with("speedUp: 600", "speedUp: 3601"), "testing.speedUp"},
		"both TLS sources":                     {full + "  managed: {}\n", "tls.managed"},
		"invalid Secret name":                  {with("api-tls", "API TLS"), "tls.secretName"},
		"unknown key":                          {full + "instanceDomian: x\n", "instanceDomian"},
		"short-lived managed CA":               {minimal + "tls: {managed: {lifetime: 23h59m}}\n", "tls.managed.lifetime"},
		"long-lived managed CA":                {minimal + "tls: {managed: {lifetime: 87601h}}\n", "tls.managed.lifetime"},
		"overlap of the managed CAs too short": {minimal + "tls: {managed: {overlap: 59m}}\n", "tls.managed.overlap"},
		"overlap longer than an eighth":        {minimal + "tls: {managed: {lifetime: 80h, overlap: 11h}}\n", "tls.managed.overlap"},
		"wrong case of a key":                  {with("instanceDomain", "instancedomain"), "instancedomain"},
		"duplicate key":                        {full + "externalPort: 1\n", "externalPort"},
		"field that is not part of the file":   {full + "systemNamespace: x\n", "systemNamespace"},
		"not YAML":                             {"a: b: c", "YAML"},
		"second document":                      {full + "---\n" + minimal, "document"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			instance, err := config.Parse([]byte(tc.yaml))
			if !errors.Is(err, config.ErrInvalid) || instance != nil {
				t.Fatalf("Parse: %v and error %v, want error %v", instance, err, config.ErrInvalid)
			}
			if !strings.Contains(err.Error(), tc.wantKey) || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("error %q, want one line that names %s", err, tc.wantKey)
			}
		})
	}
}

// Token servers run on Linux nodes, unless the configuration selects others.
func TestNodeSelector(t *testing.T) {
	for name, test := range map[string]struct {
		configured string
		want       map[string]string
	}{
		"default":       {"{}", map[string]string{"kubernetes.io/os": "linux"}},
		"another label": {"{disk: fast}", map[string]string{"kubernetes.io/os": "linux", "disk": "fast"}},
		"other nodes":   {"{kubernetes.io/os: other}", map[string]string{"kubernetes.io/os": "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			instance := testkit.Value(config.Parse([]byte(minimal + "\ntokenServer: {nodeSelector: " + test.configured + "}\n")))(t)
			testkit.Diff(t, "node selector", test.want, instance.TokenServer.NodeSelector)
		})
	}
}

func TestURLs(t *testing.T) {
	instance := config.Instance{InstanceDomain: "example.com", ExternalPort: 8443, SystemNamespace: "system"}
	got := []string{instance.Issuer("acme"), instance.Host(), instance.ClusterURL()}
	want := []string{"https://api.example.com:8443/acme", "api.example.com", "https://realmkeeper-token-server.system.svc"}
	testkit.Diff(t, "URLs", want, got)
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for path, content := range map[string]string{good: full, bad: full + "foo: 1\n"} {
		testkit.Do(t, os.WriteFile(path, []byte(content), 0o600))
	}
	if instance, err := config.Load(good); err != nil || instance.ExternalPort != 8443 {
		t.Errorf("Load: %+v and error %v", instance, err)
	}
	if _, err := config.Load(bad); !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), "foo") {
		t.Errorf("error %v does not name the file and the key", err)
	}
	if _, err := config.Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want %v", err, fs.ErrNotExist)
	}
}

// FuzzParse checks that Parse returns either a single-line ErrInvalid or a configuration that
// round-trips.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{minimal, full, "", "null", "- a", "a: &a [*a]", "? {a: b}\n: c", full + "---\na: b", "!!binary aGVsbG8=", "<<: {kind: x}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := config.Parse(data)
		if err != nil {
			if !errors.Is(err, config.ErrInvalid) || strings.ContainsAny(err.Error(), "\r\n") || got != nil {
				t.Fatalf("Parse: %v and error %q", got, err)
			}
			return
		}
		written := testkit.Value(yaml.Marshal(got))(t)
		again, err := config.Parse(written)
		if err != nil || !equality.Semantic.DeepEqual(got, again) {
			t.Fatalf("round trip: %v\n%s\n%s", err, written, cmp.Diff(got, again))
		}
	})
}

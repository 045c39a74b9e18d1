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

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

const header = "apiVersion: config.realmkeeper.dev/v1alpha1\nkind: InstanceConfiguration\n"

const smallest = header + `
instanceDomain: example.com
security:
  defaultTokenLifetime: 5m
`

const full = header + `
instanceDomain: realmkeeper.localhost
externalPort: 8443
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
  audit: None
  tracing: {endpoint: "http://collector:4318", samplePercentage: 10}
  trustedProxies: [10.0.0.0/8, "fd00::/8"]
testing:
  speedUp: 600
tls:
  secretName: api-tls
`

func lifetime(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func TestParse(t *testing.T) {
	tests := map[string]struct {
		yaml string
		want config.Instance
	}{
		"the smallest, with the defaults": {smallest, config.Instance{
			APIVersion: "config.realmkeeper.dev/v1alpha1", Kind: "InstanceConfiguration",
			InstanceDomain: "example.com", ExternalPort: 443,
			Security: config.Security{DefaultTokenLifetime: lifetime(5 * time.Minute), MaximumTokenLifetime: lifetime(24 * time.Hour)},
			TokenServer: config.TokenServer{Replicas: new(int32(2)), Audit: config.AuditStdout, Resources: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			}},
			TLS:     config.TLS{Managed: &config.ManagedTLS{}},
			Testing: config.Testing{SpeedUp: 1},
		}},
		"everything": {full, config.Instance{
			APIVersion: "config.realmkeeper.dev/v1alpha1", Kind: "InstanceConfiguration",
			InstanceDomain: "realmkeeper.localhost", ExternalPort: 8443,
			Security: config.Security{DefaultTokenLifetime: lifetime(time.Hour), MaximumTokenLifetime: lifetime(12 * time.Hour)},
			TokenServer: config.TokenServer{
				Image: "registry.example.com/realmkeeper:v1", ImagePullPolicy: corev1.PullAlways, Replicas: new(int32(3)),
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
				Affinity:         &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
				Resources:        &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}},
				NodeSelector:     map[string]string{"disk": "fast"},
				Tolerations:      []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
				TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
				}},
				PriorityClassName: "high", PodAnnotations: map[string]string{"team": "platform"},
				Tracing: &config.Tracing{Endpoint: "http://collector:4318", SamplePercentage: new(int32(10))},
				Audit:   config.AuditNone, TrustedProxies: []string{"10.0.0.0/8", "fd00::/8"},
			},
			TLS:     config.TLS{SecretName: "api-tls"},
			Testing: config.Testing{SpeedUp: 600},
		}},
		"a document marker, a comment": {"# ours\n---\n" + smallest + "tls: {managed: {}}\n...\n", func() config.Instance {
			want, err := config.Parse([]byte(smallest))
			if err != nil {
				t.Fatal(err)
			}
			return *want
		}()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := config.Parse([]byte(tc.yaml))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *got, cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Each fault is one line that names the key.
func TestParseRefuses(t *testing.T) {
	with := func(old, replacement string) string {
		if !strings.Contains(full, old) {
			t.Fatalf("no %q in the full configuration", old)
		}
		return strings.Replace(full, old, replacement, 1)
	}
	tests := map[string]struct{ yaml, wantKey string }{
		"empty":                        {"", "apiVersion"},
		"null":                         {"null", "apiVersion"},
		"no apiVersion":                {"kind: InstanceConfiguration\n", "apiVersion"},
		"another apiVersion":           {with("v1alpha1", "v2"), "apiVersion"},
		"no kind":                      {with("kind: InstanceConfiguration", ""), "kind"},
		"another kind":                 {with("InstanceConfiguration", "Realm"), "kind"},
		"no domain":                    {with("instanceDomain: realmkeeper.localhost", ""), "instanceDomain"},
		"an empty domain":              {with("realmkeeper.localhost", `""`), "instanceDomain"},
		"an address for a domain":      {with("realmkeeper.localhost", "https://example.com"), "instanceDomain"},
		"a domain in upper case":       {with("realmkeeper.localhost", "Example.com"), "instanceDomain"},
		"a domain with a port":         {with("realmkeeper.localhost", "example.com:8443"), "instanceDomain"},
		"a domain of many lines":       {with("realmkeeper.localhost", `"a\nb"`), "instanceDomain"},
		"a domain too long":            {with("realmkeeper.localhost", strings.Repeat("a", 250)), "instanceDomain"},
		"a number for the domain":      {with("realmkeeper.localhost", "7"), "instanceDomain"},
		"a list for the domain":        {with("realmkeeper.localhost", "[a]"), "instanceDomain"},
		"a port too small":             {with("8443", "-1"), "externalPort"},
		"a port too large":             {with("8443", "65536"), "externalPort"},
		"a port beyond 32 bits":        {with("8443", "99999999999"), "externalPort"},
		"a pull secret without name":   {with("name: registry", "name: \"\""), "tokenServer.imagePullSecrets[0].name"},
		"a port of text":               {with("8443", "https"), "externalPort"},
		"no default lifetime":          {with("defaultTokenLifetime: 1h", ""), "security.defaultTokenLifetime"},
		"no security":                  {header + "instanceDomain: example.com\n", "security.defaultTokenLifetime"},
		"a default too short":          {with("1h", "9s"), "security.defaultTokenLifetime"},
		"a default too long":           {with("1h", "24h1s"), "security.defaultTokenLifetime"},
		"a default below nothing":      {with("1h", "-1h"), "security.defaultTokenLifetime"},
		"a broken second":              {with("1h", "10.5s"), "security.defaultTokenLifetime"},
		"no unit":                      {with("1h", `"3600"`), "security.defaultTokenLifetime"},
		"a number for a duration":      {with("1h", "3600"), "security.defaultTokenLifetime"},
		"a maximum too long":           {with("12h", "25h"), "security.maximumTokenLifetime"},
		"a maximum of text":            {with("12h", "long"), "security.maximumTokenLifetime"},
		"the default over the maximum": {with("12h", "30m"), "security.maximumTokenLifetime"},
		"no replicas":                  {with("replicas: 3", "replicas: 0"), "tokenServer.replicas"},
		"half a replica":               {with("replicas: 3", "replicas: 1.5"), "tokenServer.replicas"},
		"a broken quantity":            {with("200m", "much"), "tokenServer.resources.requests.cpu"},
		"a broken toleration":          {with("key: dedicated", "key: [1]"), "tokenServer.tolerations"},
		"a list for the token server":  {header + "tokenServer: []\n", "tokenServer"},
		"an unknown pull policy":       {with("Always", "Sometimes"), "tokenServer.imagePullPolicy"},
		"a request over its limit":     {with("requests: {cpu: 200m}", "{requests: {cpu: 2}, limits: {cpu: 1}}"), "tokenServer.resources.requests.cpu"},
		"a broken priority class":      {with("priorityClassName: high", "priorityClassName: Very High"), "tokenServer.priorityClassName"},
		"traces to nowhere":            {with("http://collector:4318", "collector:4318"), "tokenServer.tracing.endpoint"},
		"more traces than requests":    {with("samplePercentage: 10", "samplePercentage: 101"), "tokenServer.tracing.samplePercentage"},
		"an audit to elsewhere":        {with("audit: None", "audit: stdout"), "tokenServer.audit"},
		"a proxy without a network":    {with("10.0.0.0/8", "10.0.0.1"), "tokenServer.trustedProxies[0]"},
		"a broken annotation":          {with("{team: platform}", "{\"my team\": platform}"), "tokenServer.podAnnotations"},
		"a broken node label":          {with("{disk: fast}", "{\"my disk\": fast}"), "tokenServer.nodeSelector"},
		"a broken value of a label":    {with("{disk: fast}", "{disk: \"very fast\"}"), "tokenServer.nodeSelector"},
		"an unknown operator":          {with("operator: Exists", "operator: Is"), "tokenServer.tolerations[0].operator"},
		"an unknown effect":            {with("operator: Exists", "operator: Exists, effect: Stay"), "tokenServer.tolerations[0].effect"},
		"no skew":                      {with("maxSkew: 1, ", ""), "tokenServer.topologySpreadConstraints[0].maxSkew"},
		"no topology":                  {with("topologyKey: zone, ", ""), "tokenServer.topologySpreadConstraints[0].topologyKey"},
		"no way out":                   {with("DoNotSchedule", "Hope"), "tokenServer.topologySpreadConstraints[0].whenUnsatisfiable"},
		"slower than time":             {with("speedUp: 600", "speedUp: -1"), "testing.speedUp"},
		"faster than it can be":        {with("speedUp: 600", "speedUp: 3601"), "testing.speedUp"},
		"both kinds of TLS":            {full + "  managed: {}\n", "tls.managed"},
		"a Secret's name that is none": {with("api-tls", "API TLS"), "tls.secretName"},
		"an unknown key":               {full + "instanceDomian: x\n", "instanceDomian"},
		"an unknown key below":         {with("  image:", "  imag:"), "tokenServer.imag"},
		"an unknown key in a list":     {with("{key: dedicated", "{keyy: x, key: dedicated"), "keyy"},
		"an unknown key of managed":    {smallest + "tls: {managed: {days: 3}}\n", "tls.managed.days"},
		"a key in another case":        {with("instanceDomain", "instancedomain"), "instancedomain"},
		"a key twice":                  {full + "externalPort: 1\n", "externalPort"},
		"a key that isn't of the file": {full + "systemNamespace: x\n", "systemNamespace"},
		"not YAML":                     {"a: b: c", "YAML"},
		"a tab":                        {"security:\n\tdefaultTokenLifetime: 1h", "YAML"},
		"a list":                       {"- a\n- b\n", "document"},
		"text":                         {"hello", "document"},
		"a second document":            {full + "---\n" + smallest, "document"},
		"a second document, broken":    {smallest + "---\nexternalPort: 1\n", "document"},
		"NUL":                          {"\x00", "YAML"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			instance, err := config.Parse([]byte(tc.yaml))
			if !errors.Is(err, config.ErrInvalid) || instance != nil {
				t.Fatalf("%v, error %v, want %v", instance, err, config.ErrInvalid)
			}
			if !strings.Contains(err.Error(), tc.wantKey) || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("error %q, want one line that names %s", err, tc.wantKey)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for path, content := range map[string]string{good: full, bad: full + "foo: 1\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if instance, err := config.Load(good); err != nil || instance.ExternalPort != 8443 {
		t.Errorf("%+v, %v", instance, err)
	}
	if _, err := config.Load(bad); !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), "foo") {
		t.Errorf("error %v doesn't name file and key", err)
	}
	if _, err := config.Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want %v", err, fs.ErrNotExist)
	}
}

func TestAddresses(t *testing.T) {
	tests := map[string]struct {
		port                                 int32
		wantIssuer, wantHost, wantClusterURL string
	}{
		"the port that doesn't show": {443, "https://api.example.com/acme", "api.example.com", "https://realmkeeper-token-server.system.svc"},
		"another port":               {8443, "https://api.example.com:8443/acme", "api.example.com", "https://realmkeeper-token-server.system.svc"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			instance := config.Instance{InstanceDomain: "example.com", ExternalPort: tc.port, SystemNamespace: "system"}
			got := []string{instance.Issuer("acme"), instance.Host(), instance.ClusterURL()}
			if diff := cmp.Diff([]string{tc.wantIssuer, tc.wantHost, tc.wantClusterURL}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTokenLifetime(t *testing.T) {
	instance := config.Instance{Security: config.Security{DefaultTokenLifetime: lifetime(5 * time.Minute)}}
	if got := instance.TokenLifetime(nil); got != 5*time.Minute {
		t.Errorf("left out: %s, want 5m", got)
	}
	if got := instance.TokenLifetime(&metav1.Duration{Duration: time.Hour}); got != time.Hour {
		t.Errorf("set: %s, want 1h", got)
	}
}

func TestPaced(t *testing.T) {
	for speedUp, want := range map[int32]time.Duration{0: time.Hour, 1: time.Hour, 600: 6 * time.Second} {
		instance := config.Instance{Testing: config.Testing{SpeedUp: speedUp}}
		if got := instance.Scaled(time.Hour); got != want {
			t.Errorf("sped up by %d an hour lasts %s, want %s", speedUp, got, want)
		}
	}
}

// Whatever a file holds: one line about ErrInvalid, or a configuration that reads the
// same when it is written again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{smallest, full, "", "null", "- a", "a: &a [*a]", "? {a: b}\n: c", full + "---\na: b", "!!binary aGVsbG8=", "<<: {kind: x}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := config.Parse(data)
		if err != nil {
			if !errors.Is(err, config.ErrInvalid) || strings.ContainsAny(err.Error(), "\r\n") || got != nil {
				t.Fatalf("%v, error %q", got, err)
			}
			return
		}
		written, err := yaml.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := config.Parse(written)
		if err != nil || !equality.Semantic.DeepEqual(got, again) {
			t.Fatalf("read again: %v\n%s\n%s", err, written, cmp.Diff(got, again))
		}
	})
}

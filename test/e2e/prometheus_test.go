//go:build e2e && nightly

package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// prometheusImage is the image of Prometheus. It is loaded only for nightly tests.
const prometheusImage = "realmkeeper-prometheus:e2e"

// The jobs of Prometheus. They scrape the same metrics each second.
const (
	offline  = "offline"  // from an API that verifies tokens with the keys of the realm
	verified = "verified" // from an API that also asks the verify endpoint, so it needs a token server
)

// How long tokens are valid, for most of the test, and while there are no token servers.
const (
	shortLifetime = 30 * time.Second
	longLifetime  = 5 * time.Minute
)

// TestPrometheusReadsTokenFile runs Prometheus beside token agents while everything changes that tokens depend on. No
// scrape must fail, except while the client is suspended. Where an API asks the verify endpoint, scrapes also fail
// while there are no token servers.
func TestPrometheusReadsTokenFile(t *testing.T) {
	needsNode(t)
	useInstallation(t)
	s := startScraping(t)
	// A new signing key is published for at least ten minutes before it signs tokens.
	first := s.requestSigningKey(t)
	defer s.report(t)

	s.during(t, "expiry of tokens", func() {
		began := time.Now()
		s.eventually(t, "five renewals", func(p *prometheus) error {
			return p.expect(t, fmt.Sprintf(`sum(changes(orders_token_issued_timestamp_seconds{job="offline"}[%dms])) >= 5`, time.Since(began).Milliseconds()))
		})
	})
	s.during(t, "longer token lifetime", func() {
		// Just before its renewal is due, the agent has the least time left.
		s.setLifetime(t, longLifetime)
		s.awaitTokens(t, time.Now(), "")
		pause(t, time.Until(s.earliest().Add(longLifetime*2/3-5*time.Second)))
	})
	s.during(t, "no token servers for 60 seconds", func() { s.testOutage(t) }, "with-secret/verified", "with-account/verified")
	s.during(t, "restart of the token agents", func() {
		s.setLifetime(t, shortLifetime) // A restarted agent gets such a token immediately.
		awaitReady(t, s.realm)
		killed := time.Now()
		for _, p := range s.all() {
			signal(t, p.pod, "token-agent", "SIGKILL")
		}
		s.eventually(t, "the token agents to restart", func(p *prometheus) error {
			get(t, p.pod.Namespace, p.pod.Name, p.pod)
			if p.pod.Status.InitContainerStatuses[0].RestartCount == 0 {
				return errNotYet
			}
			return nil
		})
		s.awaitTokens(t, killed, "")
	})
	s.during(t, "rotation of the client secret", func() {
		c, old := s.withSecret.client, &corev1.Secret{}
		get(t, c.Namespace, c.Status.SecretName, old)
		change(t, c, func() {
			c.Spec.Secret.Generated.Rotation = v1beta1.SecretRotation{
				Overlap:             &v1beta1.Duration{Duration: shortLifetime},
				RotationRequestTime: &metav1.Time{Time: time.Now()},
			}
		})
		untilRefused(t, tokenServers(t), old)
		s.awaitTokens(t, time.Now(), "")
	})
	s.during(t, "renewal of the service account token", func() {
		eventually(t, "the kubelet to renew the service account token", func() error {
			if s.withAccount.serviceAccountToken(t) == s.assertion {
				return errNotYet
			}
			return nil
		})
		s.awaitTokens(t, time.Now(), "")
	})
	s.during(t, "suspension of a client", func() { s.testSuspension(t) }, "with-secret/offline", "with-secret/verified")
	s.during(t, "rotation of the signing key", func() {
		s.awaitTokens(t, time.Now(), s.nextSigningKey(t, first))
	})
}

// prometheus is a Pod with Prometheus and a token agent.
type prometheus struct {
	name   string
	client *v1beta1.ApiClient
	pod    *corev1.Pod
	api    prometheusv1.API
	issued time.Time // when the token was issued that awaitTokens waited for
}

// scraping is an API that requires tokens, and two Pods with Prometheus that scrape it.
type scraping struct {
	realm                   *v1beta1.Realm
	withSecret, withAccount *prometheus
	assertion               string // the first service account token of withAccount
	phases                  []phase
}

// phase is a part of the test.
type phase struct {
	name       string
	start, end time.Time
	failing    []string // jobs whose scrapes must fail: name/job
}

func (s *scraping) all() []*prometheus { return []*prometheus{s.withSecret, s.withAccount} }

// earliest returns when the older one of the tokens was issued that awaitTokens waited for.
func (s *scraping) earliest() time.Time {
	if s.withSecret.issued.Before(s.withAccount.issued) {
		return s.withSecret.issued
	}
	return s.withAccount.issued
}

func (s *scraping) during(t *testing.T, name string, do func(), failing ...string) {
	t.Helper()
	start := time.Now()
	if n := len(s.phases); n > 0 {
		start = s.phases[n-1].end // so that each scrape counts
	}
	do()
	s.phases = append(s.phases, phase{name: name, start: start, end: time.Now(), failing: failing})
	t.Logf("%s: %s", name, time.Since(start).Round(time.Second))
}

func startScraping(t *testing.T) *scraping {
	t.Helper()
	apps := namespace(t, "apps")
	s := &scraping{realm: realm("acme")}
	s.realm.Spec.TokenLifetime = &v1beta1.Duration{Duration: shortLifetime}
	account, withAccount, p := tokenAgentObjects(t, apps)
	withSecret := apiClient(apps, "billing", "acme")
	create(t, s.realm, account, withAccount, withSecret, trustBundle(t, apps))
	awaitReady(t, withAccount)
	awaitReady(t, withSecret)
	issuer := strings.TrimSuffix(withSecret.Status.TokenEndpoint, "/oauth2/token")

	served := pod(apps, "orders", "", "metrics", "--issuer", issuer, "--ca-file", "/credentials/ca.crt",
		"--realm-url", "https://"+tokenService+"."+systemNamespace+".svc/acme")
	served.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "realmkeeper-ca"}}}
	create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: apps, Name: "prometheus"},
		Data:       map[string]string{"prometheus.yml": prometheusConfiguration(t, serve(t, served))},
	})
	s.withSecret = &prometheus{name: "with-secret", client: withSecret, pod: podWithSecret(t, p, withSecret)}
	create(t, s.withSecret.pod)
	s.withAccount = &prometheus{name: "with-account", client: withAccount, pod: deployWithAccount(t, apps, account.Name, issuer)}
	s.eventually(t, "Prometheus to scrape", func(p *prometheus) error {
		get(t, apps, p.pod.Name, p.pod)
		if !isReady(p.pod) {
			return errNotYet
		}
		connection, err := api.NewClient(api.Config{Address: "http://" + p.pod.Status.PodIP + ":9090"})
		if err != nil {
			return err
		}
		p.api = prometheusv1.NewAPI(connection)
		return p.expect(t, `sum(up) == 2`)
	})
	s.assertion = s.withAccount.serviceAccountToken(t)
	return s
}

// prometheusConfiguration returns the configuration on the page about the token agent, with jobs for an API.
func prometheusConfiguration(t *testing.T, host string) string {
	t.Helper()
	configuration := map[string]any{}
	if err := yaml.Unmarshal([]byte(tokenAgentBlock(t, "scrape_configs:\n")), &configuration); err != nil {
		t.Fatal(err)
	}
	page := configuration["scrape_configs"].([]any)[0].(map[string]any)
	var jobs []any
	for name, path := range map[string]string{offline: "/metrics", verified: "/verified/metrics"} {
		job := maps.Clone(page)
		maps.Copy(job, map[string]any{
			"job_name": name, "metrics_path": path, "scheme": "http",
			"static_configs": []any{map[string]any{"targets": []any{host}}},
		})
		jobs = append(jobs, job)
	}
	configuration["scrape_configs"] = jobs
	configuration["global"] = map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s"}
	content, err := yaml.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// runPrometheus lets a container of a Pod run Prometheus with the ConfigMap prometheus.
func runPrometheus(p *corev1.PodSpec) {
	c := &p.Containers[0]
	c.Name, c.Image, c.ImagePullPolicy, c.SecurityContext.RunAsUser = "prometheus", prometheusImage, corev1.PullIfNotPresent, new(int64(65534))
	c.Args = []string{"--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/data", "--log.level=debug"}
	for name, mount := range map[string]corev1.VolumeMount{
		"configuration": {MountPath: "/etc/prometheus", ReadOnly: true},
		"data":          {MountPath: "/data"},
	} {
		mount.Name = name
		c.VolumeMounts = append(c.VolumeMounts, mount)
	}
	p.Volumes = append(
		p.Volumes,
		corev1.Volume{Name: "configuration", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "prometheus"}}}},
		corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	)
}

// podWithSecret returns the Pod on the page, in the variant with a credentials Secret.
func podWithSecret(t *testing.T, p *corev1.Pod, c *v1beta1.ApiClient) *corev1.Pod {
	t.Helper()
	variant := corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(tokenAgentBlock(t, "initContainers:\n")), &variant); err != nil {
		t.Fatal(err)
	}
	p.Name = "with-secret"
	p.Spec.InitContainers[0].Args, p.Spec.Volumes[1] = variant.InitContainers[0].Args, variant.Volumes[0]
	p.Spec.Volumes[1].Secret.SecretName = c.Status.SecretName
	runPrometheus(&p.Spec)
	return p
}

// deployWithAccount applies a Deployment with the kustomization on the page and the component of this checkout. It
// returns the Pod.
func deployWithAccount(t *testing.T, namespace, account, issuer string) *corev1.Pod {
	t.Helper()
	dir := t.TempDir()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	component, err := filepath.Rel(dir, filepath.Join(repository, "config", "components", "token-agent"))
	if err != nil {
		t.Fatal(err)
	}
	page := regexp.MustCompile(`https://github\.com/\S+/components/token-agent\S*`).ReplaceAllString(tokenAgentBlock(t, "# kustomization.yaml\n"), component)
	name, tag, _ := strings.Cut(tokenAgentImage, ":")
	overlay := "namespace: " + namespace + "\n" + strings.NewReplacer("https://api.example.com/acme", issuer,
		"ghcr.io/realmkeeper/realmkeeper-token-agent", name, "newTag: v0.1.0", "newTag: "+tag).Replace(page)
	template := pod(namespace, "with-account", "")
	template.Spec.RestartPolicy, template.Spec.Volumes, template.Spec.ServiceAccountName = "", nil, account
	template.Spec.SecurityContext.RunAsUser = nil // that of the image of the agent
	c := &template.Spec.Containers[0]
	c.Command, c.VolumeMounts = nil, []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/token", ReadOnly: true}}
	runPrometheus(&template.Spec)
	deployment, err := yaml.Marshal(&appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: template.Name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"kustomization.yaml": []byte(overlay), "deployment.yaml": deployment} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, "apply", "--kustomize", dir)
	t.Cleanup(func() {
		remove(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: template.Name}})
	})
	pods := &corev1.PodList{}
	eventually(t, "the Pod of the Deployment", func() error {
		if err := cluster.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels(template.Labels)); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return errNotYet
		}
		return nil
	})
	return &pods.Items[0]
}

// serviceAccountToken returns the service account token that the kubelet has mounted.
func (p *prometheus) serviceAccountToken(t *testing.T) string {
	t.Helper()
	return node(t, "exec", "cat", "/var/lib/kubelet/pods/"+string(p.pod.UID)+"/volumes/kubernetes.io~projected/realmkeeper/token")
}

// query returns the series of a query at a time.
func (p *prometheus) query(t *testing.T, query string, at time.Time) (model.Vector, error) {
	t.Helper()
	value, _, _, err := p.api.Query(t.Context(), query, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	return value.(model.Vector), nil
}

// expect returns an error unless a query returns something.
func (p *prometheus) expect(t *testing.T, query string) error {
	t.Helper()
	found, err := p.query(t, query, time.Now())
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: %s: %s", errNotYet, p.name, query)
	}
	return err
}

// eventually waits for each Prometheus.
func (s *scraping) eventually(t *testing.T, what string, ask func(p *prometheus) error) {
	t.Helper()
	for _, p := range s.all() {
		eventually(t, what+" "+p.name, func() error { return ask(p) })
	}
}

// awaitTokens waits until all jobs use a token that was issued after a time and, if there is one, with a key.
func (s *scraping) awaitTokens(t *testing.T, after time.Time, key string) {
	t.Helper()
	s.eventually(t, "a token in use", func(p *prometheus) error {
		used, err := p.query(t, `orders_token_issued_timestamp_seconds`, time.Now())
		if err != nil {
			return err
		}
		for _, one := range used {
			p.issued = time.Unix(int64(one.Value), 0)
			if !p.issued.After(after) || (key != "" && key != string(one.Metric["kid"])) {
				return fmt.Errorf("%w: %s", errNotYet, one)
			}
		}
		if len(used) != 2 {
			return fmt.Errorf("%w: %s", errNotYet, used)
		}
		return nil
	})
}

func change(t *testing.T, object client.Object, change func()) {
	t.Helper()
	eventually(t, "the change of "+object.GetName(), func() error {
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change()
		return cluster.Update(t.Context(), object)
	})
}

func (s *scraping) setLifetime(t *testing.T, lifetime time.Duration) {
	t.Helper()
	change(t, s.realm, func() { s.realm.Spec.TokenLifetime = &v1beta1.Duration{Duration: lifetime} })
}

// requestSigningKey requests a rotation of the signing key, and returns the ID of the old one.
func (s *scraping) requestSigningKey(t *testing.T) string {
	t.Helper()
	awaitReady(t, s.realm)
	keys := s.realm.Status.SigningKeys
	if len(keys) != 1 {
		t.Fatalf("a new realm has the keys %+v, want one", keys)
	}
	change(t, s.realm, func() {
		s.realm.Spec.Signing = v1beta1.Signing{
			PublishAhead:        &v1beta1.Duration{Duration: 10 * time.Minute},
			RotationRequestTime: &metav1.Time{Time: time.Now()},
		}
	})
	return keys[0].KeyID
}

// nextSigningKey waits until another key than the first one is active, and returns its ID.
func (s *scraping) nextSigningKey(t *testing.T, first string) (id string) {
	t.Helper()
	eventually(t, "another signing key", func() error {
		get(t, "", s.realm.Name, s.realm)
		for _, key := range s.realm.Status.SigningKeys {
			if key.State == v1beta1.SigningKeyActive && key.KeyID != first {
				id = key.KeyID
				t.Logf("the next signing key is active since %s", key.ActivationTime)
				return nil
			}
		}
		return fmt.Errorf("%w: %+v", errNotYet, s.realm.Status.SigningKeys)
	})
	return id
}

// testOutage stops all token servers for a minute. The operator would start them again, so it is stopped, too.
func (s *scraping) testOutage(t *testing.T) {
	t.Helper()
	scale := func(replicas string, deployments ...string) {
		for _, name := range deployments {
			kubectl(t, "scale", "--namespace", systemNamespace, "deployment/"+name, "--replicas="+replicas)
		}
	}
	scale("0", operator)
	eventually(t, "the operators to stop", func() error {
		if n := len(operators(t)); n > 0 {
			return fmt.Errorf("%w: %d operators", errNotYet, n)
		}
		return nil
	})
	scale("0", tokenService)
	kubectl(t, "delete", "pods", "--namespace", systemNamespace, "--selector", "app.kubernetes.io/component=token-server", "--grace-period=1")
	s.eventually(t, "scrapes through the verify endpoint to fail", func(p *prometheus) error {
		return p.expect(t, `up{job="verified"} == 0`)
	})
	stopped := time.Now()
	pause(t, time.Minute)
	scale("2", tokenService, operator)
	s.eventually(t, "scrapes through the verify endpoint to succeed", func(p *prometheus) error {
		return p.expect(t, `up{job="verified"} == 1`)
	})
	t.Logf("there were no token servers for %s", time.Since(stopped).Round(time.Second))
	s.awaitTokens(t, stopped, "")
	awaitRollout(t, operator)
	awaitRollout(t, tokenService)
	for _, p := range s.all() {
		if log := kubectl(t, "logs", "--namespace", p.pod.Namespace, p.pod.Name, "--container", "token-agent"); !strings.Contains(log, "Failed to renew the token") {
			t.Errorf("no renewal of %s was due while there were no token servers:\n%s", p.name, log)
		}
	}
}

// testSuspension suspends a client until the agent has removed its token, and then resumes it.
func (s *scraping) testSuspension(t *testing.T) {
	t.Helper()
	p := s.withSecret
	suspend(t, p.client)
	suspended := time.Now()
	for _, job := range []string{verified, offline} {
		eventually(t, "scrapes to fail", func() error { return p.expect(t, `max_over_time(up{job="`+job+`"}[5s]) == 0`) })
		t.Logf("scrapes of the job %s had failed for 5 seconds %s after the suspension", job, time.Since(suspended).Round(time.Second))
	}
	resumed := time.Now()
	change(t, p.client, func() { p.client.Spec.Suspend = false })
	s.awaitTokens(t, resumed, "")
	t.Logf("scrapes succeeded again %s after the client was resumed", time.Since(resumed).Round(time.Second))
}

// report counts the scrapes of each phase.
func (s *scraping) report(t *testing.T) {
	t.Helper()
	if len(s.phases) == 0 {
		return
	}
	end := s.phases[len(s.phases)-1].end
	s.eventually(t, "the last scrapes", func(p *prometheus) error {
		return p.expect(t, fmt.Sprintf(`min(timestamp(up)) > %d`, end.Unix()))
	})
	for _, phase := range s.phases {
		for _, p := range s.all() {
			for _, job := range []string{offline, verified} {
				p.count(t, phase, job)
			}
		}
	}
	for _, p := range s.all() {
		t.Logf("failures of %s: %v", p.name, p.failures(t))
	}
}

// count checks the number of scrapes and of failures of a job in a phase.
func (p *prometheus) count(t *testing.T, phase phase, job string) {
	t.Helper()
	value := func(function string) int {
		found, err := p.query(t, fmt.Sprintf(`%s(up{job=%q}[%dms])`, function, job, phase.end.Sub(phase.start).Milliseconds()), phase.end)
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", phase.name, found, err)
			return 0
		}
		return int(found[0].Value)
	}
	scrapes := value("count_over_time")
	failed := scrapes - value("sum_over_time")
	t.Logf("%-38s %-12s %-8s %4d scrapes, %3d failed", phase.name, p.name, job, scrapes, failed)
	mayFail := slices.Contains(phase.failing, p.name+"/"+job)
	switch {
	case failed > 0 && !mayFail:
		t.Errorf("%s: %d of %d scrapes of %s/%s failed", phase.name, failed, scrapes, p.name, job)
	case failed == 0 && mayFail:
		t.Errorf("%s: no scrape of %s/%s failed", phase.name, p.name, job)
	case float64(scrapes) < 0.9*phase.end.Sub(phase.start).Seconds()-1:
		t.Errorf("%s: %d scrapes of %s/%s in %s, want one each second", phase.name, scrapes, p.name, job, phase.end.Sub(phase.start))
	}
}

// failures returns why scrapes failed, and how many, by job.
func (p *prometheus) failures(t *testing.T) map[string]int {
	t.Helper()
	failures := map[string]int{}
	for _, found := range regexp.MustCompile(`msg="Scrape failed".* scrape_pool=(\w+) .*err=(.*)`).FindAllStringSubmatch(
		kubectl(t, "logs", "--namespace", p.pod.Namespace, p.pod.Name, "--container", "prometheus"), -1) {
		failures[found[1]+": "+found[2]]++
	}
	return failures
}

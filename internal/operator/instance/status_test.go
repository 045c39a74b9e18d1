package instance

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func configuration(t *testing.T) *config.Instance {
	t.Helper()
	c := testkit.Value(config.Parse([]byte("apiVersion: config.realmkeeper.dev/v1beta1\nkind: InstanceConfiguration\n" +
		"instanceDomain: example.com\nexternalPort: 8443\nsecurity: {defaultTokenLifetime: 5m}\n")))(t)
	c.SystemNamespace, c.RecordsNamespace = "system", "records"
	return c
}

func reasonOf(s *v1beta1.InstanceStatus, kind v1beta1.ConditionType) string {
	if c := meta.FindStatusCondition(s.Conditions, string(kind)); c != nil {
		return string(c.Status) + " " + c.Reason
	}
	return ""
}

// renewed returns a token server that serves records, and has lagged for some time.
func renewed(name string, lag time.Duration, change ...func(*heartbeat.Heartbeat)) acknowledgement.Server {
	s := acknowledgement.Server{Name: name, Heartbeat: heartbeat.Heartbeat{Server: name, Version: "7", Software: "v1", Renewed: now}}
	if lag > 0 {
		s.Lagging = now.Add(-lag)
	}
	for _, change := range change {
		change(&s.Heartbeat)
	}
	return s
}

func TestStatusOfTokenServers(t *testing.T) {
	dead := func(h *heartbeat.Heartbeat) { h.Dead = true }
	starting := func(h *heartbeat.Heartbeat) { h.Version, h.Software = "", "" }
	unreadable := func(h *heartbeat.Heartbeat) { h.Unreadable = []string{"realm-1"} }
	undecrypted := func(h *heartbeat.Heartbeat) { h.UndecryptedActive = []string{"acme"} }
	for name, test := range map[string]struct {
		servers    []acknowledgement.Server
		wantStates string
		wantReady  string
		wantLive   int32
		wantNext   time.Duration // zero if there is no next change
	}{
		"none":                        {nil, "", "False NoTokenServer", 0, 0},
		"one is starting":             {[]acknowledgement.Server{renewed("a", 0, starting)}, "a Starting", "False NoTokenServer", 0, 0},
		"current, and one starts":     {[]acknowledgement.Server{renewed("a", 0), renewed("b", 0, starting)}, "a v1 Current, b Starting", "True Ready", 1, 0},
		"a lag within the grace":      {[]acknowledgement.Server{renewed("a", 3*time.Second), renewed("b", 4*time.Second)}, "a v1 Current, b v1 Current", "True Ready", 2, 6 * time.Second},
		"a longer lag":                {[]acknowledgement.Server{renewed("a", 0), renewed("b", grace)}, "a v1 Current, b v1 Behind", "Unknown Progressing", 2, 0},
		"unreadable records":          {[]acknowledgement.Server{renewed("a", grace), renewed("b", 0, unreadable)}, "a v1 Behind, b v1 Behind", "False RecordsNotLoaded", 2, 0},
		"a key is not decrypted yet":  {[]acknowledgement.Server{renewed("a", 1*time.Second, undecrypted)}, "a v1 Current", "True Ready", 1, 9 * time.Second},
		"a key can't be decrypted":    {[]acknowledgement.Server{renewed("a", grace, undecrypted)}, "a v1 Behind", "False KMSUnavailable", 1, 0},
		"one stopped, one is current": {[]acknowledgement.Server{renewed("a", time.Hour, dead), renewed("b", 0)}, "a v1 Stale 0s, b v1 Current", "True Ready", 1, 0},
		"all stopped":                 {[]acknowledgement.Server{renewed("a", 0, dead, unreadable)}, "a v1 Stale 0s", "False NoTokenServer", 0, 0},
		"an invalid Lease":            {[]acknowledgement.Server{{Name: "a"}}, "a Stale", "False NoTokenServer", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &observed{instance: &v1beta1.Instance{}, servers: test.servers}
			s, next := status(seen, configuration(t), "v2", now)
			var states []string
			for _, listed := range s.TokenServers {
				state := strings.TrimSpace(listed.Name+" "+listed.Version) + " " + string(listed.State)
				if listed.HeartbeatTime != nil {
					state += " " + now.Sub(listed.HeartbeatTime.Time).String()
				}
				states = append(states, state)
				if silent := listed.State == v1beta1.TokenServerCurrent || listed.State == v1beta1.TokenServerStarting; (listed.Message == "") != silent {
					t.Errorf("message of %s is %q", state, listed.Message)
				}
			}
			testkit.Diff(t, "states", test.wantStates, strings.Join(states, ", "))
			testkit.Diff(t, "Ready", test.wantReady, reasonOf(&s, v1beta1.ConditionReady))
			testkit.Diff(t, "live token servers", test.wantLive, *s.LiveTokenServers)
			if want := now.Add(test.wantNext); (test.wantNext == 0) != next.IsZero() || test.wantNext != 0 && !next.Equal(want) {
				t.Errorf("next change at %s, want it after %s", next, test.wantNext)
			}
			// An idle instance causes no writes.
			seen.instance.Status = s
			for i := range seen.servers {
				if !seen.servers[i].Dead && !seen.servers[i].Renewed.IsZero() {
					seen.servers[i].Renewed = now.Add(9 * time.Minute)
				}
			}
			later, _ := status(seen, configuration(t), "v2", now.Add(time.Millisecond))
			testkit.Diff(t, "status after more heartbeats", s, later)
		})
	}
}

// If Kubernetes can't create Pods, there are none that a user could look at.
func TestStatusNamesWhyThereAreNoPods(t *testing.T) {
	const denied = `pods "realmkeeper-token-server-59d8c-abcde" is forbidden: failed quota: compute: must specify limits.cpu for: token-server`
	const unknown = "No live token servers. Check the Instance realmkeeper, and the token server Deployment and its Pods in the system namespace."
	const prefix = "No live token servers. Kubernetes cannot create the Pods of the Deployment system/realmkeeper-token-server: "
	for name, test := range map[string]struct {
		status      corev1.ConditionStatus
		message     string
		servers     []acknowledgement.Server
		wantReady   string
		wantMessage string
	}{
		"no failure":                 {wantReady: "False NoTokenServer", wantMessage: unknown},
		"denied by a quota":          {"True", denied, nil, "False NoTokenServer", prefix + denied},
		"denied before":              {"False", denied, nil, "False NoTokenServer", unknown},
		"only more Pods are missing": {"True", denied, []acknowledgement.Server{renewed("a", 0)}, "True Ready", "Every live token server serves the latest records."},
		"a webhook's long text":      {"True", strings.Repeat("x", 40_000), nil, "False NoTokenServer", prefix + strings.Repeat("x", 4096)},
		"a webhook's line break":     {"True", "denied:\n\x1b[2J\u202eno", nil, "False NoTokenServer", prefix + "denied:  [2J no"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "realmkeeper-token-server"}}
			if test.status != "" {
				deployment.Status.Conditions = []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: "False", Message: "Deployment does not have minimum availability."},
					{Type: appsv1.DeploymentReplicaFailure, Status: test.status, Message: test.message},
				}
			}
			s, _ := status(&observed{instance: &v1beta1.Instance{}, servers: test.servers, deployment: deployment}, configuration(t), "v2", now)
			testkit.Diff(t, "Ready", test.wantReady, reasonOf(&s, v1beta1.ConditionReady))
			testkit.Diff(t, "message", test.wantMessage, meta.FindStatusCondition(s.Conditions, string(v1beta1.ConditionReady)).Message)
		})
	}
}

func TestStatusOfInstance(t *testing.T) {
	s, _ := status(&observed{instance: &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Generation: 3}}}, configuration(t), "v2", now)
	got := []any{s.ObservedGeneration, s.Version, s.ServiceURL, s.SystemNamespace, s.RecordsNamespace}
	testkit.Diff(t, "status", []any{int64(3), "v2", "https://api.example.com:8443", "system", "records"}, got)
}

// The operator keeps the containers that others add to the Deployment, so the status shows them.
func TestUnknownContainers(t *testing.T) {
	plain, encrypted := configuration(t), configuration(t)
	encrypted.KeyEncryption.KMS = &config.KMS{}
	containers := func(names ...string) (all []corev1.Container) {
		for _, name := range names {
			all = append(all, corev1.Container{Name: name})
		}
		return all
	}
	for name, test := range map[string]struct {
		instance  *config.Instance
		pod       corev1.PodSpec
		wantReady string
		wantNames string
	}{
		"as applied":                      {plain, corev1.PodSpec{Containers: containers("token-server")}, "True Ready", ""},
		"as applied with a plugin":        {encrypted, corev1.PodSpec{Containers: containers("token-server"), InitContainers: containers("kms-plugin")}, "True Ready", ""},
		"a container":                     {plain, corev1.PodSpec{Containers: containers("token-server", "x")}, "False UnknownContainer", ": x."},
		"init containers":                 {encrypted, corev1.PodSpec{Containers: containers("token-server"), InitContainers: containers("a", "kms-plugin", "b")}, "False UnknownContainer", ": a, b."},
		"a plugin without key encryption": {plain, corev1.PodSpec{Containers: containers("token-server"), InitContainers: containers("kms-plugin")}, "False UnknownContainer", ": kms-plugin."},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &observed{instance: &v1beta1.Instance{}, servers: []acknowledgement.Server{renewed("a", 0)}, deployment: &appsv1.Deployment{}}
			seen.deployment.Spec.Template.Spec = test.pod
			s, _ := status(seen, test.instance, "v2", now)
			testkit.Diff(t, "Ready", test.wantReady, reasonOf(&s, v1beta1.ConditionReady))
			if message := meta.FindStatusCondition(s.Conditions, string(v1beta1.ConditionReady)).Message; !strings.Contains(message, test.wantNames) {
				t.Errorf("the message is %q", message)
			}
		})
	}
}

// The API accepts at most 64 token servers, and those with a problem must be among them.
func TestManyTokenServers(t *testing.T) {
	var servers []acknowledgement.Server
	for n := range 70 {
		servers = append(servers, renewed(fmt.Sprintf("s%02d", n), 0))
	}
	servers[69].Dead = true
	s, _ := status(&observed{instance: &v1beta1.Instance{}, servers: servers}, configuration(t), "v2", now)
	first, last := s.TokenServers[0], s.TokenServers[len(s.TokenServers)-1]
	if len(s.TokenServers) != 64 || *s.LiveTokenServers != 69 || first.Name != "s00" || last.Name != "s69" || last.State != v1beta1.TokenServerStale {
		t.Errorf("%d token servers, %d live, from %s to %s %s", len(s.TokenServers), *s.LiveTokenServers, first.Name, last.Name, last.State)
	}
}

func TestStatusOfCertificateAuthority(t *testing.T) {
	instance := configuration(t)
	policy := authority.PolicyOf(instance)
	ca := testkit.Value(authority.Make(now, nil, policy, rand.Reader))(t).Authority
	published := testkit.Value(authority.Make(ca.Current.Leaf.NotAfter.Add(-policy.Overlap-policy.ServingLifetime), ca, policy, rand.Reader))(t).Authority
	end := metav1.NewTime(ca.Current.Leaf.NotAfter)
	for name, test := range map[string]struct {
		seen       observed
		byUser     bool
		want       *v1beta1.CertificateAuthorityStatus
		wantReason string
		wantNext   bool
	}{
		"not generated yet": {observed{}, false, nil, "Unknown Progressing", false},
		"it signs":          {observed{ca: ca}, false, &v1beta1.CertificateAuthorityStatus{ExpirationTime: end}, "True CertificatesIssued", false},
		"the next one is published": {observed{ca: published}, false, &v1beta1.CertificateAuthorityStatus{ExpirationTime: end, Next: &v1beta1.NextCertificateAuthorityStatus{
			ActivationTime: metav1.NewTime(published.SwitchAt(policy)), ExpirationTime: metav1.NewTime(published.Next.Leaf.NotAfter),
		}}, "True CertificatesIssued", false},
		"damaged":                     {observed{unusable: authority.ErrUnusable}, false, nil, "False CAUnusable", true},
		"the user has another Secret": {observed{ca: ca}, true, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			instance := configuration(t)
			if test.byUser {
				instance.TLS.Managed = nil
			}
			test.seen.instance = &v1beta1.Instance{}
			s, next := status(&test.seen, instance, "v2", now)
			testkit.Diff(t, "CA", test.want, s.CertificateAuthority)
			testkit.Diff(t, "CertificatesIssued", test.wantReason, reasonOf(&s, v1beta1.ConditionCertificatesIssued))
			testkit.Diff(t, "is computed again", test.wantNext, !next.IsZero())
		})
	}
}

func TestStatusOfKeyEncryption(t *testing.T) {
	for name, test := range map[string]struct {
		mode       sealing.Mode
		keyID      string
		want       *v1beta1.KeyEncryptionStatus
		wantReason string
	}{
		"no plugin":          {sealing.Off, "", nil, ""},
		"only decryption":    {sealing.Decrypt, "", &v1beta1.KeyEncryptionStatus{Mode: "Decrypt"}, ""},
		"it responds":        {sealing.Encrypt, "new", &v1beta1.KeyEncryptionStatus{Mode: "Encrypt", KeyID: "new"}, "True KMSConnected"},
		"it doesn't respond": {sealing.Encrypt, "", &v1beta1.KeyEncryptionStatus{Mode: "Encrypt", KeyID: "known"}, "False KMSUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &observed{instance: &v1beta1.Instance{}, mode: test.mode, keyID: test.keyID}
			seen.instance.Status.KeyEncryption = &v1beta1.KeyEncryptionStatus{Mode: "Encrypt", KeyID: "known"}
			seen.instance.Status.Conditions = []metav1.Condition{{Type: "KMSConnected", Status: "True", Reason: "KMSConnected"}}
			s, next := status(seen, configuration(t), "v2", now)
			testkit.Diff(t, "is checked again", test.mode == sealing.Encrypt, !next.IsZero())
			testkit.Diff(t, "key encryption", test.want, s.KeyEncryption)
			testkit.Diff(t, "KMSConnected", test.wantReason, reasonOf(&s, v1beta1.ConditionKMSConnected))
		})
	}
}

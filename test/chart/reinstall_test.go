package chart_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// TestReinstallKeepsTokensAndSecrets installs the chart with Helm 3 and continues with Helm 4, because
// users also switch between major versions. It upgrades values, uninstalls the chart, and installs it
// again. The operator and a token server run with the chart's permissions. Tokens and secrets stay
// valid, and exactly the documented objects remain.
func TestReinstallKeepsTokensAndSecrets(t *testing.T) {
	cluster := env.Start(t)
	team := cluster.Namespace(t)
	before := allObjects(t, cluster)
	r := installChart(t, helm3, values["defaults"]...)
	inst := install.In(t, cluster, r.namespace, install.Settings{})
	inst.LeaderElection = true
	r.start(t, inst)
	realm, c := install.Realm("acme"), install.ApiClient(team, "billing", "acme")
	inst.Create(t, realm, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	credentials := inst.CredentialsSecret(t, c)
	token := inst.AccessToken(t, credentials)
	wantValid := func() {
		t.Helper()
		inst.AwaitTokens(t, credentials, true)
		inst.AwaitValid(t, realm.Name, token, true)
		install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Description += "Changed." })
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
		if now := inst.CredentialsSecret(t, c); now.UID != credentials.UID || !cmp.Equal(now.Data, credentials.Data) {
			t.Error("The credentials Secret has changed")
		}
	}

	r.helm(t, helm4, "upgrade", slices.Concat([]string{releaseName, *chart}, values["defaults"], []string{"--set", "logging.level=debug,operator.replicas=2"})...)
	stop(t, inst)
	r.start(t, inst)
	wantValid()

	r.helm(t, helm4, "uninstall", releaseName)
	stop(t, inst)
	r.awaitObjects(t, slices.Concat(before, []string{
		"CustomResourceDefinition apiclients.auth.realmkeeper.dev", "CustomResourceDefinition instances.auth.realmkeeper.dev", "CustomResourceDefinition realms.auth.realmkeeper.dev",
		"Realm acme", "Instance realmkeeper", "ApiClient " + team + "/billing", "Secret " + team + "/billing",
		"Namespace SYSTEM-records", "Secret SYSTEM-records/beacon", "Secret SYSTEM-records/realm-UID", "Secret SYSTEM-records/client-UID", "ConfigMap SYSTEM-records/usage",
		"Namespace SYSTEM", "Secret SYSTEM/realmkeeper-ca", "Secret SYSTEM/realmkeeper-serving-cert", "Lease SYSTEM/realmkeeper-operator",
	}))

	// A release with another name can't take the records, even without the CRDs.
	args := slices.Concat([]string{"install", "second", *chart, "--namespace", r.namespace, "--set", "crds.enabled=false"}, values["defaults"])
	_, stderr, err := helm4.try(t, cluster.Kubeconfig, args...)
	if err == nil || !strings.Contains(stderr, `Namespace "`+r.recordsNamespace()+`"`) || !strings.Contains(stderr, `current value is "`+releaseName+`"`) {
		t.Errorf("Release with another name: got %v, want it to be rejected because of the namespace:\n%s", err, stderr)
	}
	r.helm(t, helm4, "install", slices.Concat([]string{releaseName, *chart}, values["defaults"])...)
	r.start(t, inst)
	wantValid()

	r.helm(t, helm4, "uninstall", releaseName)
	stop(t, inst)
	for _, command := range documentedRemoval(t) {
		shell(t, cluster, strings.ReplaceAll(command, "realmkeeper-system", r.namespace))
	}
	r.awaitObjects(t, before)
}

// start starts an operator, as if in the Pod that the chart created, and a token server.
func (r release) start(t *testing.T, inst *install.Installation) {
	t.Helper()
	install.Eventually(t, "a Pod of the operator", func() error {
		pods := &corev1.PodList{}
		err := r.cluster.Client.List(t.Context(), pods, client.InNamespace(r.namespace), client.MatchingLabels{"app.kubernetes.io/component": "operator"})
		if err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("there is none")
		}
		inst.Pod = pods.Items[0].Name
		return nil
	})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
}

func stop(t *testing.T, inst *install.Installation) {
	t.Helper()
	inst.StopOperator(t)
	inst.StopTokenServers(t)
}

// awaitObjects waits until exactly these objects exist.
func (r release) awaitObjects(t *testing.T, want []string) {
	t.Helper()
	slices.Sort(want)
	install.Eventually(t, "the documented objects to remain", func() error {
		var got []string
		for _, object := range allObjects(t, r.cluster) {
			object = strings.ReplaceAll(object, r.namespace, "SYSTEM")
			object = regexp.MustCompile(`SYSTEM-records/(realm|client|subject)-[0-9a-f-]+$`).ReplaceAllString(object, "SYSTEM-records/$1-UID")
			// A heartbeat remains if the token server loses its permissions before it stops, and a report
			// remains if the operator stops before it has merged it.
			if !strings.HasPrefix(object, "Lease SYSTEM-records/") && !strings.HasPrefix(object, "ConfigMap SYSTEM-records/token-server-") {
				got = append(got, object)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("objects (-want +got):\n%s", diff)
		}
		return nil
	})
}

// allObjects returns the kinds and names of all objects in the cluster, except for those that
// Kubernetes creates on its own.
func allObjects(t *testing.T, cluster *env.Env) (objects []string) {
	t.Helper()
	cache := "--cache-dir=" + t.TempDir() // an older cache doesn't contain the CRDs or still contains them
	resources := strings.Fields(cluster.Kubectl(t, "api-resources", cache, "--verbs=list", "--output=name"))
	resources = slices.DeleteFunc(resources, func(resource string) bool {
		return slices.Contains([]string{"componentstatuses", "endpoints", "events", "events.events.k8s.io", "apiservices.apiregistration.k8s.io"}, resource)
	})
	out := cluster.Kubectl(t, "get", strings.Join(resources, ","), "--all-namespaces", "--ignore-not-found", cache, "--output",
		`go-template={{range .items}}{{.kind}} {{with .metadata.namespace}}{{.}}/{{end}}{{.metadata.name}}{{"\n"}}{{end}}`)
	for object := range strings.Lines(out) {
		object = strings.TrimSpace(object)
		if !regexp.MustCompile(` kube-|/kube-root-ca.crt$|^ServiceAccount .*/default$`).MatchString(object) {
			objects = append(objects, object)
		}
	}
	return objects
}

// documentedRemoval returns the commands in docs/operations/uninstall.md that delete everything.
func documentedRemoval(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations/uninstall.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "To delete everything permanently")
	_, block, _ := strings.Cut(section, "```console\n")
	block, _, _ = strings.Cut(block, "```")
	var commands []string
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands = append(commands, command)
		}
	}
	if len(commands) == 0 {
		t.Fatal("docs/operations/uninstall.md contains no commands to delete everything")
	}
	return commands
}

// shell runs a command that contains kubectl, as an administrator.
func shell(t *testing.T, cluster *env.Env, command string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "bash", "-c", command)
	run.Env = append(run.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "KUBECACHEDIR="+t.TempDir(), "PATH="+cluster.BinDir+":"+os.Getenv("PATH"))
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, bytes.TrimSpace(out))
	}
}

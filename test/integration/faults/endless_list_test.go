package faults_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A proxy in front of the API server drops bookmarks, so that no streamed list ends. Operator and token server
// list without streaming after 10 seconds, and their logs say what they waited for. A token server without the proxy
// does neither.
func TestEndlessListsAreReplaced(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{})
	proxy := inst.StartFaultProxy(t, install.Faults{})
	proxy.DropBookmarks()
	kubeconfig := inst.KubeconfigFor(t, proxy.URL)
	inst.StartOperator(t, kubeconfig)
	direct := inst.StartTokenServer(t)
	server := inst.LaunchTokenServer(t, kubeconfig)
	server.AwaitReady(t)
	_, c := scenario.NewClient(t, inst, "acme")
	credentials := inst.CredentialsSecret(t, c)
	inst.AwaitTokens(t, credentials, true)
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	inst.AwaitTokens(t, credentials, false)

	const message = "The API server did not end a streamed list, will list without streaming"
	if bytes.Contains(inst.Log(t, direct), []byte(message)) {
		t.Error("the token server without the proxy gave up a list")
	}
	for name, log := range map[string]func() []byte{
		"operator":     func() []byte { return inst.OperatorLog(t) },
		"token server": func() []byte { return inst.Log(t, server) },
	} {
		install.Eventually(t, "the "+name+" to log why it was late", func() error {
			if !bytes.Contains(log(), []byte(message)) {
				return errors.New("it hasn't")
			}
			return nil
		})
	}
}

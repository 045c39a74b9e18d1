package usage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/usage"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// lost returns the time that the operator has persisted as the time before which uses may be missing.
func lost(t *testing.T, inst *install.Installation) time.Time {
	t.Helper()
	state := &corev1.ConfigMap{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: lastuse.StateName}, state); err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339Nano, state.Data["lost"])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func awaitLost(t *testing.T, inst *install.Installation, since time.Time) {
	t.Helper()
	install.Eventually(t, "the operator to persist that uses are missing", func() error {
		if at := lost(t, inst); at.Before(since) {
			return fmt.Errorf("uses may be missing before %s, want %s", at, since)
		}
		return nil
	})
}

// A killed server loses the uses that it hasn't reported, which are at most those of the last minute.
// The operator records the time before which uses may be missing, so each use is either shown or
// before this time. The operator also advances this time if it rejects an invalid report of a server.
func TestLostUses(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{SpeedUp: 60}) // a period of a minute, and reports every second
	inst.StartOperator(t, "")
	front, killed := inst.StartTokenServer(t), inst.StartTokenServer(t)
	team := inst.Env.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	var all []*v1alpha1.ApiClient
	for i := range 3 {
		c := install.ApiClient(team, name(i), "acme")
		inst.Create(t, c)
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		all = append(all, c)
	}
	use := func(s *install.TokenServer, c *v1alpha1.ApiClient) (at time.Time) {
		t.Helper()
		at = time.Now()
		if response, err := install.RequestToken(t, s, s.Client(t), inst.CredentialsSecret(t, c)); err != nil || response.AccessToken == "" {
			t.Fatalf("no token: %+v, %v", response, err)
		}
		return at
	}
	shown := func(c *v1alpha1.ApiClient) bool {
		t.Helper()
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			t.Fatal(err)
		}
		return c.Status.Secrets[0].LastUsedTime != nil
	}

	use(killed, all[0])
	install.Eventually(t, "the first use to be shown", func() error {
		if !shown(all[0]) {
			return fmt.Errorf("the status is %+v", all[0].Status)
		}
		return nil
	})
	before := lost(t, inst)

	// The kubelet restarts a killed container, so the server finds its own Lease.
	at := use(killed, all[1])
	killed.KillAndRestart(t)
	killed.AwaitReady(t)
	if !shown(all[1]) {
		awaitLost(t, inst, at)
	}
	if !lost(t, inst).After(before) {
		awaitLost(t, inst, before.Add(1))
	}

	// A node fails, so the Lease of the server becomes stale.
	at = use(killed, all[2])
	inst.KillTokenServer(t, killed)
	rejections(t, inst, front.Name)
	lease := &coordinationv1.Lease{}
	install.Eventually(t, "the Lease of the killed server to be deleted", func() error {
		err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: heartbeat.LeaseName(killed.Name)}, lease)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it exists, or: %w", err)
	})
	if persisted := lost(t, inst); persisted.Before(at) {
		t.Errorf("uses may be missing before %s, although a server that was used at %s was killed", persisted, at)
	}
}

// rejections creates reports as a third party. It checks that the operator ignores them, counts them
// in its metrics, and names them in its log.
func rejections(t *testing.T, inst *install.Installation, server string) {
	t.Helper()
	c := install.ApiClient(inst.Env.Namespace(t), "unused", "acme")
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	credential := usage.Credential{Type: usage.Secret, ID: c.Status.Secrets[0].ID}
	encode := func(server string, at time.Time) string {
		r := &usage.Report{Server: server}
		r.Add(c.UID, credential, at)
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	now := time.Now()
	notes := usage.ConfigMap(inst.RecordsNamespace, "gone", 0, encode("gone", now))
	notes.Name = "notes"
	for reason, report := range map[string]*corev1.ConfigMap{
		"Damaged":    usage.ConfigMap(inst.RecordsNamespace, server, 7, encode("another", now)),
		"Future":     usage.ConfigMap(inst.RecordsNamespace, "gone", 1, encode("gone", now.Add(24*time.Hour))),
		"NotAServer": notes,
	} {
		since := time.Now()
		inst.Create(t, report)
		metric := `realmkeeper_usage_reports_rejected_total{reason="` + reason + `"}`
		install.Eventually(t, "a rejection because of "+reason, func() error {
			if got := inst.OperatorMetric(t, metric); got != "1" {
				return fmt.Errorf("%s is %s", metric, got)
			}
			return nil
		})
		if log := string(inst.OperatorLog(t)); !strings.Contains(log, `"configMap": "`+report.Name+`"`) && !strings.Contains(log, `"configMap":"`+report.Name+`"`) {
			t.Errorf("the operator's log does not name ConfigMap %s", report.Name)
		}
		if reason == "NotAServer" {
			inst.Delete(t, report) // the operator doesn't delete it
			continue
		}
		awaitLost(t, inst, since)
		install.Eventually(t, "the rejected report to be deleted", func() error {
			if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(report), report); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it exists, or: %w", err)
			}
			return nil
		})
	}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil || c.Status.LastUsedTime != nil {
		t.Errorf("a rejected report was merged: %v, %v", c.Status.LastUsedTime, err)
	}
}

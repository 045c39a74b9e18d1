package inspect_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

// The API server's clock decides how long ago a use was. The text names no unit shorter than an hour, to which
// the recorded times are truncated.
func TestLastUsed(t *testing.T) {
	now := time.Date(2026, 3, 1, 14, 49, 0, 0, time.UTC)
	list := v1beta1.ApiClientList{Items: []v1beta1.ApiClient{*plugintest.Client("billing")}}
	c := &list.Items[0]
	for name, hours := range map[string]int{"busy": 0, "hourly": 2, "yesterday": 30, "monthly": 40 * 24} {
		c.Status.Credentials = append(c.Status.Credentials, v1beta1.CredentialStatus{
			Type: v1beta1.CredentialTypePublicKey, Name: name, LastUsedTime: &metav1.Time{Time: now.Truncate(time.Hour).Add(-time.Duration(hours) * time.Hour)},
		})
	}
	flag := plugintest.APIServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", now.Format(http.TimeFormat))
		_ = json.NewEncoder(w).Encode(list)
	})
	code, stdout, stderr := plugintest.Run(t, "stale", "--older=1m", "--namespace=acme", flag)
	got := map[string]string{}
	for line := range strings.Lines(stdout) {
		if columns := strings.Fields(line); len(columns) > 3 {
			got[columns[2]] = strings.Join(columns[3:], " ")
		}
	}
	delete(got, "CREDENTIAL")
	testkit.Diff(t, "Last uses", map[string]string{"busy": "this hour", "hourly": "2h ago", "yesterday": "30h ago", "monthly": "40d ago"}, got)
	if code != 0 {
		t.Errorf("Exit code %d, %s", code, stderr)
	}
}

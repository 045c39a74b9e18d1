package apiclient

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
)

func TestRotated(t *testing.T) {
	at := func(last *metav1.Time, ids ...string) v1alpha1.ApiClientStatus {
		s := v1alpha1.ApiClientStatus{LastRotationTime: last}
		for _, id := range ids {
			s.Secrets = append(s.Secrets, v1alpha1.ClientSecretStatus{ID: id})
		}
		return s
	}
	first, second := metav1.NewTime(now), metav1.NewTime(now.Add(time.Second))
	of := func(note string) *notice.Event {
		return &notice.Event{Type: "Normal", Reason: "SecretRotated", Action: "Rotate", Note: note}
	}
	for name, test := range map[string]struct {
		before, after v1alpha1.ApiClientStatus
		want          *notice.Event
	}{
		"the first secret":             {at(nil), at(nil, "a"), nil},
		"a pending secret":             {at(nil, "a"), at(nil, "a", "b"), nil},
		"the pending secret is active": {at(nil, "a", "b"), at(&first, "a", "b"), of("Client secret rotated. The active secret is now b. Secret a stays valid until the overlap ends; see its expiration in status.secrets.")},
		"the overlap ended":            {at(&first, "a", "b"), at(&first, "b"), nil},
		"the next rotation":            {at(&first, "b", "c"), at(&second, "b", "c"), of("Client secret rotated. The active secret is now c. Secret b stays valid until the overlap ends; see its expiration in status.secrets.")},
		"a rotation without overlap":   {at(&first, "b"), at(&second, "c"), of("Client secret rotated. The active secret is now c.")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, rotated(&test.before, &test.after)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

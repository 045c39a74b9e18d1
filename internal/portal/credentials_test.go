package portal_test

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/portal"
)

func TestDescribeRotation(t *testing.T) {
	duration := func(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }
	generated := func(rotation v1alpha1.SecretRotation) *v1alpha1.ClientSecretSource {
		return &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{Rotation: rotation}}
	}
	for name, tc := range map[string]struct {
		source *v1alpha1.ClientSecretSource
		want   string
	}{
		"default":    {generated(v1alpha1.SecretRotation{}), "After a rotation, the old secret expires after 24h."},
		"overlap":    {generated(v1alpha1.SecretRotation{Overlap: duration(time.Hour)}), "After a rotation, the old secret expires after 1h."},
		"no overlap": {generated(v1alpha1.SecretRotation{Overlap: duration(0)}), "After a rotation, the old secret expires immediately."},
		"end when unused": {
			generated(v1alpha1.SecretRotation{EndWhenUnused: &v1alpha1.EndWhenUnused{After: duration(24 * time.Hour), Max: duration(720 * time.Hour)}}),
			"After a rotation, the old secret expires when it hasn't been used for 24h, and after 720h at the latest.",
		},
		"another source": {&v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: "a"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.ApiClient{Spec: v1alpha1.ApiClientSpec{Secret: tc.source}}
			if got := portal.DescribeRotation(c); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

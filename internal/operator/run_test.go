package operator_test

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/realmkeeper/realmkeeper/internal/operator"
)

// The operator waits while the API server is unavailable, and exits if a user must change something.
func TestUnavailable(t *testing.T) {
	leases := schema.GroupResource{Resource: "leases"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"refused":             {&url.Error{Op: "Get", Err: errors.New("connection refused")}, true},
		"overloaded":          {apierrors.NewTooManyRequests("later", 1), true},
		"etcd without leader": {apierrors.NewInternalError(errors.New("no leader")), true},
		"forbidden":           {apierrors.NewForbidden(leases, "", nil), false},
		"another instance":    {operator.ErrInstallation, false},
	} {
		if got := operator.Unavailable(fmt.Errorf("reading: %w", test.err)); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAwaitAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		err := operator.AwaitAPIServer(t.Context(), func() error {
			if requests++; requests < 3 {
				return &url.Error{Op: "Get", Err: errors.New("connection refused")}
			}
			return operator.ErrInstallation
		})
		if !errors.Is(err, operator.ErrInstallation) || requests != 3 {
			t.Errorf("%d requests, %v", requests, err)
		}
	})
}

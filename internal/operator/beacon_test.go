package operator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// applier is a client whose writes fail while down is true.
type applier struct {
	client.Client

	down atomic.Bool
}

func (a *applier) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	if a.down.Load() {
		return errors.New("connection refused")
	}
	return nil
}

// Everything is reconciled soon after an outage of any length, because a write has failed in each that lasts
// longer than the interval of the beacon.
func TestBeaconWriterNoticesEndOfOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, recoveries := &applier{}, atomic.Int64{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = (&beaconWriter{client: api, namespace: "records", recovered: func() { recoveries.Add(1) }}).Start(ctx)
		}()
		for outages := range int64(2) {
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := recoveries.Load(); got != outages {
				t.Errorf("%d recoveries after %d outages", got, outages)
			}
			api.down.Store(true)
			time.Sleep(12 * time.Second)
			api.down.Store(false)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := recoveries.Load(); got != outages+1 {
				t.Errorf("%d recoveries 2 seconds after %d outages", got, outages+1)
			}
		}
	})
}

// The mapping contains every kind in the cache, and its list kind.
func TestMapper(t *testing.T) {
	mapper := testkit.Value(newMapper(nil, nil))(t)
	scheme := testkit.Value(Scheme())(t)
	clusterScoped := map[string]bool{"realms": true, "namespaces": true}
	for object := range cacheOptions(&config.Instance{}, nil, informers.New(t.Context())).ByObject {
		kind := testkit.Value(apiutil.GVKForObject(object, scheme))(t)
		for _, name := range []string{kind.Kind, kind.Kind + "List"} {
			mapping, err := mapper.RESTMapping(kind.GroupVersion().WithKind(name).GroupKind(), kind.Version)
			if err != nil {
				t.Error(err)
				continue
			}
			if root := mapping.Scope.Name() == meta.RESTScopeNameRoot; root != clusterScoped[mapping.Resource.Resource] {
				t.Errorf("%s is cluster-scoped: %t", mapping.Resource, root)
			}
		}
	}
}

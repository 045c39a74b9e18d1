package lastuse

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

// The reports of used credentials, which the operator deletes, and until when uses can be missing.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=list;watch;create;patch;delete,namespace=realmkeeper-system-records

// Watch feeds the store from the manager's cache, except for the Leases. leases returns true after all
// existing Leases were passed to SetLease. Watch also adds a runnable to the manager that
// deletes each report after the status of ApiClients shows its uses.
func (s *Store) Watch(ctx context.Context, mgr ctrl.Manager, leases func() bool) error {
	s.synced = append(s.synced, leases)
	for object, handler := range map[client.Object]toolscache.ResourceEventHandler{
		&corev1.ConfigMap{}:  informers.Handler(s.setConfigMap, s.removeConfigMap),
		&v1beta1.ApiClient{}: informers.Handler(s.setClient, s.removeClient),
	} {
		informer, err := mgr.GetCache().GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		s.synced = append(s.synced, registration.HasSynced)
	}
	return mgr.Add(&flusher{store: s, client: mgr.GetClient()})
}

func (s *Store) setConfigMap(object *corev1.ConfigMap) {
	switch {
	case object.Namespace != s.namespace:
	case object.Labels[usage.Label] == usage.LabelValue:
		s.setReport(object)
	case object.Name == StateName:
		s.setState(object)
	}
}

func (s *Store) setState(object *corev1.ConfigMap) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	persisted, err := parseState(object, now)
	if err != nil {
		ctrl.Log.WithName("usage").Error(err, "Ignored the persisted state of usage reports; all credentials count as used until now", "configMap", object.Name)
	}
	s.facts.observeState(persisted, s.resolution, s.roundUp(now))
}

// removeConfigMap removes a report. If the state is removed, it is written again.
func (s *Store) removeConfigMap(object *corev1.ConfigMap) {
	switch {
	case object.Namespace != s.namespace:
	case object.Name == StateName:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.facts.state = &state{}
	default:
		s.removeReport(object.Name)
	}
}

// SetLease implements acknowledgement.Observer.
func (s *Store) SetLease(lease *coordinationv1.Lease) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.facts.servers[lease.Name]
	current := s.facts.observeLease(lease, s.resolution, now)
	// A Lease that was not renewed shows a time in the past, even if the clock is right.
	if !known || !current.untrusted || current.renewed.Equal(before.renewed) {
		return
	}
	s.facts.lose(s.roundUp(now))
	current.reported = true
	s.facts.servers[lease.Name] = current
	log := ctrl.Log.WithName("usage").WithValues("lease", lease.Name)
	switch {
	case before.reported:
	case current.skewed:
		s.rejected(metrics.WrongClock)
		log.Info("The clock of a token server is wrong, so all credentials count as used", "difference", now.Sub(current.renewed).String())
	default:
		log.Info("A token server does not report uses with the current usage.resolution, so all credentials count as used")
	}
}

// RemoveLease implements acknowledgement.Observer.
func (s *Store) RemoveLease(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.facts.servers, name)
}

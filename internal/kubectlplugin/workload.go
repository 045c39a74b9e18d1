package kubectlplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/kubeversion"
	"github.com/realmkeeper/realmkeeper/internal/leader"
)

// workload is a Deployment of the installation.
type workload struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
	Ready     int32  `json:"ready"`
	Replicas  int32  `json:"replicas"`
}

func (d *workload) String() string {
	return fmt.Sprintf("%s/%s, %s, %d of %d ready", d.Namespace, d.Name, d.version(), d.Ready, d.Replicas)
}

// version returns the tag or digest of the image.
func (d *workload) version() string {
	if _, digest, ok := strings.Cut(d.Image, "@"); ok {
		return "digest " + strings.TrimPrefix(digest, "sha256:")[:min(12, len(strings.TrimPrefix(digest, "sha256:")))]
	}
	if i := strings.LastIndexByte(d.Image, ':'); i > strings.LastIndexByte(d.Image, '/') {
		return "version " + d.Image[i+1:]
	}
	return "image " + d.Image
}

// serverReport is the heartbeat of a token server.
type serverReport struct {
	Name string `json:"name"`
	// HeartbeatTime is when the server last reported, according to its own clock.
	HeartbeatTime metav1.Time `json:"heartbeatTime"`
	// Stale is true if the server has missed its heartbeats.
	Stale bool `json:"stale"`
	// Version is the latest resource version of the records that it serves.
	Version string `json:"version"`
}

// Labels of the Deployments.
const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"
)

// workloads adds the operator and the token servers to a status. Users without permission to read
// them get a note instead.
func (c *cluster) workloads(ctx context.Context, r *statusReport) {
	r.Operator = c.workload(ctx, r, "operator")
	r.TokenService = c.workload(ctx, r, "token-server")
	c.restores(ctx, r)
	leases := &coordinationv1.LeaseList{}
	if err := c.List(ctx, leases, client.MatchingLabels{heartbeat.Label: heartbeat.LabelValue}); err != nil {
		r.note("token servers", "Leases", err)
		r.TokenServers = nil
		return
	}
	for i := range leases.Items {
		beat, err := heartbeat.Parse(&leases.Items[i])
		if err != nil {
			r.Notes = append(r.Notes, err.Error()+".")
			continue
		}
		r.TokenServers = append(r.TokenServers, serverReport{
			Name: beat.Server, HeartbeatTime: metav1.NewTime(beat.Renewed.UTC().Truncate(time.Second)),
			Stale: c.clock.now().Sub(beat.Renewed) > heartbeat.Duration, Version: beat.Version,
		})
	}
	slices.SortFunc(r.TokenServers, func(a, b serverReport) int { return strings.Compare(a.Name, b.Name) })
}

// restores adds the restore that holds the leader Lease to a status. Users without permission to read it
// get no note, because the status is complete without a restore.
func (c *cluster) restores(ctx context.Context, r *statusReport) {
	binding := &rbacv1.ClusterRoleBinding{}
	if c.Get(ctx, client.ObjectKey{Name: instanceBinding}, binding) != nil {
		return
	}
	namespace, _, _ := strings.Cut(binding.RoleRef.Name, ":")
	if found, err := leader.FindRestore(ctx, c, namespace, c.clock.now()); err == nil {
		r.restore = found
	}
}

// restoreProblems returns a problem if a restore keeps the operator from working.
func (r *statusReport) restoreProblems() []problem {
	switch {
	case r.restore == nil:
		return nil
	case r.restore.Running:
		return []problem{{Warning: true, Reason: "A restore is running", Message: fmt.Sprintf("The leader Lease is held by %s. The operator continues after the restore.", r.restore)}}
	}
	return []problem{{
		Reason:  "A restore has stopped halfway",
		Message: fmt.Sprintf("The leader Lease is held by %s. The operator does not work until %s after the last renewal.", r.restore, leader.RestoreDuration),
		Action:  "Run the restore again, or let the operator continue without it.", Commands: []string{"kubectl realmkeeper restore --abort"},
	}}
}

// kubernetes adds the version of Kubernetes to a status.
func (c *cluster) kubernetes(ctx context.Context, r *statusReport) {
	server, err := c.discovery.ServerVersionWithContext(ctx)
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("The version of Kubernetes is unknown: %v.", err))
		return
	}
	r.Kubernetes = server.GitVersion
}

// workload returns the Deployment of a component, or nil if there is none.
func (c *cluster) workload(ctx context.Context, r *statusReport, component string) *workload {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, client.MatchingLabels{nameLabel: "realmkeeper", componentLabel: component}); err != nil {
		r.note(component, "Deployments", err)
		return nil
	}
	if len(list.Items) == 0 {
		return nil
	}
	d := &list.Items[0]
	found := &workload{Namespace: d.Namespace, Name: d.Name, Ready: d.Status.ReadyReplicas, Replicas: 1}
	if d.Spec.Replicas != nil {
		found.Replicas = *d.Spec.Replicas
	}
	if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
		found.Image = containers[0].Image
	}
	return found
}

// note adds a note that a part of the status is missing.
func (r *statusReport) note(part, resource string, err error) {
	if apierrors.IsForbidden(err) {
		r.Notes = append(r.Notes, fmt.Sprintf("The status of the %s is missing, because you have no permission to list %s in all namespaces.", part, resource))
		return
	}
	r.Notes = append(r.Notes, fmt.Sprintf("The status of the %s is missing: %v.", part, err))
}

// kubernetesProblems returns a problem if the version of Kubernetes is not supported.
func (r *statusReport) kubernetesProblems() []problem {
	if !errors.Is(kubeversion.Check(r.Kubernetes), kubeversion.ErrTooOld) {
		return nil
	}
	return []problem{{
		Warning: true, Reason: "Kubernetes " + r.Kubernetes + " is not supported",
		Message: "Realmkeeper supports Kubernetes " + kubeversion.Supported + ". Older versions may lack features that it needs.",
		Action:  "Upgrade the cluster.",
	}}
}

// workloadProblems returns the problems of the token servers.
func (r *statusReport) workloadProblems() []problem {
	if r.TokenServers == nil {
		return nil // the Leases could not be read
	}
	const pods = "kubectl describe pods -A -l " + nameLabel + "=realmkeeper," + componentLabel + "=token-server"
	if len(r.TokenServers) == 0 {
		return []problem{{
			Reason: "No token server is running", Message: "No token server reports to the operator, so no client can get a token.",
			Action: "Check the token server Deployment and its Pods.", Commands: []string{pods},
		}}
	}
	var found []problem
	for _, s := range r.TokenServers {
		if s.Stale {
			found = append(found, problem{
				Reason:  "Token server " + s.Name + " is stale",
				Message: fmt.Sprintf("It has not reported for more than %s. Changes wait for it until the operator counts it as dead.", heartbeat.Duration),
				Action:  "Check its Pod, and whether it reaches the API server.", Commands: []string{pods},
			})
		}
	}
	if t := r.TokenService; t != nil && t.Ready < t.Replicas && int(t.Replicas) > len(r.TokenServers) {
		found = append(found, problem{
			Reason: "Token servers are missing", Message: fmt.Sprintf("%d of %d replicas are ready.", t.Ready, t.Replicas),
			Action: "Check the Pods of the token server.", Commands: []string{pods},
		})
	}
	return found
}

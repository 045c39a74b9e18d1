package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
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

// addWorkloads adds the Deployments of the operator and the token servers to a status, and who leads. Users
// without permission to read the Deployments get a note instead.
func (r *Status) addWorkloads(ctx context.Context, c *cluster.Cluster, instance *v1beta1.Instance) {
	r.Operator = r.workload(ctx, c, "operator")
	r.TokenService = r.workload(ctx, c, "token-server")
	if instance == nil {
		instance = &v1beta1.Instance{}
	}
	system, _, err := c.Namespaces(ctx, &instance.Status)
	if err != nil {
		return
	}
	// Users without permission to read the leader Lease get no note, because the status is complete if an
	// operator leads.
	if found, err := leader.FindRestore(ctx, c, system, c.Clock.Now()); err == nil {
		r.restore = found
	}
	if stopped, err := leader.FindStopped(ctx, c, system, c.Clock.Now()); err == nil {
		r.stopped = stopped
	}
}

// restoreProblems returns a problem if a restore keeps the operator from working.
func (r *Status) restoreProblems() []problem {
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

// addKubernetes adds the version of Kubernetes to a status.
func (r *Status) addKubernetes(ctx context.Context, c *cluster.Cluster) {
	server, err := c.Discovery.ServerVersionWithContext(ctx)
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("The version of Kubernetes is unknown: %v.", err))
		return
	}
	r.Kubernetes = server.GitVersion
}

// workload returns the Deployment of a component, or nil if there is none.
func (r *Status) workload(ctx context.Context, c *cluster.Cluster, component string) *workload {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, client.MatchingLabels{cluster.NameLabel: "realmkeeper", cluster.ComponentLabel: component}); err != nil {
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
func (r *Status) note(part, resource string, err error) {
	if apierrors.IsForbidden(err) {
		r.Notes = append(r.Notes, fmt.Sprintf("The status of the %s is missing, because you have no permission to list %s in all namespaces.", part, resource))
		return
	}
	r.Notes = append(r.Notes, fmt.Sprintf("The status of the %s is missing: %v.", part, err))
}

// kubernetesProblems returns a problem if the version of Kubernetes is not supported.
func (r *Status) kubernetesProblems() []problem {
	if !errors.Is(version.CheckKubernetes(r.Kubernetes), version.ErrKubernetesTooOld) {
		return nil
	}
	return []problem{{
		Warning: true, Reason: "Kubernetes " + r.Kubernetes + " is not supported",
		Message: "Realmkeeper supports Kubernetes " + version.SupportedKubernetes + ". Older versions may lack features that it needs.",
		Action:  "Upgrade the cluster.",
	}}
}

// workloadProblems returns a problem if token servers have not even started.
func (r *Status) workloadProblems() []problem {
	t := r.TokenService
	if r.Instance == nil || t == nil || t.Ready >= t.Replicas || int(t.Replicas) <= len(r.Instance.TokenServers) {
		return nil
	}
	return []problem{{
		Reason: "Token servers are missing", Message: fmt.Sprintf("%d of %d replicas are ready.", t.Ready, t.Replicas),
		Action:   "Check the Pods of the token server, and the Events of their ReplicaSet.",
		Commands: []string{"kubectl describe replicasets,pods -A -l " + cluster.NameLabel + "=realmkeeper," + cluster.ComponentLabel + "=token-server"},
	}}
}

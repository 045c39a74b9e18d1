package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/internal/operator"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// cluster answers the requests of an operator that starts. A nil entry, and a path that it doesn't have, is not
// found. Keys are the last elements of paths.
type cluster map[string]any

// installed returns the cluster of a complete installation, in which a restore holds the leader Lease.
func installed() cluster {
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "operator-0"},
		Spec: corev1.PodSpec{ServiceAccountName: "realmkeeper-operator", Containers: []corev1.Container{{Name: "operator", Image: "realmkeeper:test"}}},
	}
	return cluster{
		"pods/operator-0":                          pod,
		"clusterrolebindings/realmkeeper-instance": binding("realmkeeper-system:realmkeeper-system-records"),
		"realmkeeper-system/secrets":               secrets(),
		"leases/realmkeeper-operator": &coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			Spec:     coordinationv1.LeaseSpec{HolderIdentity: new("restore/1"), RenewTime: &metav1.MicroTime{Time: time.Now()}},
		},
		"namespaces/apps": &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "apps"}},
		"apps/apiclients": &v1beta1.ApiClientList{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "ApiClientList"}},
	}
}

func binding(instance string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: instance},
	}
}

func secrets(names ...string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	for _, name := range names {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		})
	}
	return list
}

func (c cluster) answer(path string) (any, error) {
	for suffix, object := range c {
		if strings.HasSuffix(path, "/"+suffix) && object != nil {
			return object, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
}

// transport is a transport to an API server that answers each path.
type transport func(path string) (any, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	object, err := t(r.URL.Path)
	code := http.StatusOK
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		answer := status.Status()
		answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		object, code, err = answer, int(answer.Code), nil
	}
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(object)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, err
}

func run(t *testing.T, o operator.Options, api transport) error {
	t.Helper()
	o.Instance = testkit.Value(config.Parse([]byte(
		"apiVersion: config.realmkeeper.dev/v1beta1\nkind: InstanceConfiguration\ninstanceDomain: example.com\nsecurity: {defaultTokenLifetime: 5m}\nwatchNamespaces: [apps]\n")))(t)
	o.Instance.SystemNamespace, o.Instance.RecordsNamespace = "realmkeeper-system", "realmkeeper-system-records"
	o.ProbeAddress, o.MetricsAddress = "0", "0"
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	return operator.Run(ctx, &rest.Config{Host: "https://api.invalid", Transport: api}, o)
}

// The operator starts over as long as a request fails for a reason that can pass. Here it fails for 90 seconds.
// Then the cluster belongs to another instance, which ends the operator.
func TestPassingFailureDoesNotEndOperator(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no RBAC policy matched"))
	for name, test := range map[string]struct {
		paths []string // that fail; all by default
		err   error
	}{
		"API server unreachable":                  {err: errors.New("connection refused")},
		"API server overloaded":                   {err: apierrors.NewTooManyRequestsError("later")},
		"etcd without leader":                     {err: apierrors.NewInternalError(errors.New("no leader"))},
		"no roles loaded":                         {err: forbidden},
		"no authenticator ready":                  {err: apierrors.NewUnauthorized("unauthorized")},
		"own Pod forbidden":                       {paths: []string{"/pods/"}, err: forbidden},
		"binding of the instance forbidden":       {paths: []string{"/clusterrolebindings/"}, err: forbidden},
		"binding of the instance missing":         {paths: []string{"/clusterrolebindings/"}, err: apierrors.NewNotFound(schema.GroupResource{}, "")},
		"records forbidden":                       {paths: []string{"/secrets"}, err: forbidden},
		"leader Lease forbidden":                  {paths: []string{"/leases/"}, err: forbidden},
		"ApiClients and the Namespace forbidden":  {paths: []string{"/apiclients", "/namespaces/apps"}, err: forbidden},
		"ApiClients forbidden in every namespace": {paths: []string{"/apiclients"}, err: forbidden},
		"resource of ApiClients missing":          {paths: []string{"/apiclients"}, err: apierrors.NewNotFound(schema.GroupResource{}, "")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const outage = 90 * time.Second
				working, start := installed(), time.Now()
				working["leases/realmkeeper-operator"] = nil
				err := run(t, operator.Options{Pod: "operator-0"}, func(path string) (any, error) {
					if time.Since(start) >= outage {
						return cluster{
							"pods/operator-0":                          working["pods/operator-0"],
							"clusterrolebindings/realmkeeper-instance": binding("other:other-records"),
						}.answer(path)
					}
					fails := len(test.paths) == 0
					for _, part := range test.paths {
						fails = fails || strings.Contains(path, part)
					}
					if fails {
						return nil, test.err
					}
					return working.answer(path)
				})
				if !errors.Is(err, operator.ErrInstallation) || time.Since(start) < outage {
					t.Errorf("The operator ended after %s: %v", time.Since(start), err)
				}
			})
		})
	}
}

// The operator ends if a user must change something first.
func TestUserMustAct(t *testing.T) {
	for name, test := range map[string]struct {
		options operator.Options
		change  func(cluster)
		want    error
	}{
		"another instance":                {change: func(c cluster) { c["clusterrolebindings/realmkeeper-instance"] = binding("other:other-records") }, want: operator.ErrInstallation},
		"records in the system namespace": {change: func(c cluster) { c["realmkeeper-system/secrets"] = secrets("client-1") }, want: operator.ErrInstallation},
		"a restore":                       {change: func(cluster) {}, want: leader.ErrRestoreHolds},
		"no such Pod":                     {options: operator.Options{Pod: "other"}, change: func(cluster) {}, want: operator.ErrConfiguration},
		"Pod without an operator": {change: func(c cluster) {
			c["pods/operator-0"].(*corev1.Pod).Spec.Containers[0].Name = "other"
		}, want: operator.ErrConfiguration},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.options.Pod == "" {
					test.options.Pod = "operator-0"
				}
				c, start := installed(), time.Now()
				test.change(c)
				if err := run(t, test.options, c.answer); !errors.Is(err, test.want) || time.Since(start) > 0 {
					t.Errorf("The operator ended after %s: %v, want %v", time.Since(start), err, test.want)
				}
			})
		})
	}
}

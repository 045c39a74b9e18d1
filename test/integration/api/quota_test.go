package api_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A tenant can't create more ApiClients than the documented ResourceQuota allows.
func TestQuota(t *testing.T) {
	cluster := env.Start(t)
	const apiClients = "count/apiclients.auth.realmkeeper.dev"
	quota := documentedQuota(t)
	if hard, found := quota.Spec.Hard[apiClients]; !found || hard.IsZero() {
		t.Fatalf("the documented quota has no limit for %s: %v", apiClients, quota.Spec.Hard)
	}
	quota.Namespace = cluster.Namespace(t)
	quota.Spec.Hard[apiClients] = resource.MustParse("1")
	create := func(obj client.Object) error { return cluster.Client.Create(t.Context(), obj) }
	if err := create(quota); err != nil {
		t.Fatal(err)
	}
	// The API server enforces the status, which kube-controller-manager would set.
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{}
	for name := range quota.Spec.Hard {
		quota.Status.Used[name] = resource.MustParse("0")
	}
	if err := cluster.Client.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}

	// The API server reads the quota from a cache, so it may not count the first objects.
	created := 0
	install.Eventually(t, "an ApiClient over the quota to be refused", func() error {
		err := create(install.ApiClient(quota.Namespace, fmt.Sprintf("client-%d", created), "acme"))
		if err == nil {
			created++
			return errors.New("it was created")
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: "+quota.Name) {
			t.Fatalf("creating an ApiClient over the quota returned %v", err)
		}
		return nil
	})
	if created == 0 {
		t.Error("no ApiClient could be created within the quota")
	}
}

// documentedQuota returns the ResourceQuota in the documentation.
func documentedQuota(t *testing.T) *corev1.ResourceQuota {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations", "permissions.md"))
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(content), "```yaml\n") {
		manifest, _, _ := strings.Cut(block, "```")
		if !strings.Contains(manifest, "kind: ResourceQuota\n") {
			continue
		}
		quota := &corev1.ResourceQuota{}
		if err := yaml.UnmarshalStrict([]byte(manifest), quota); err != nil {
			t.Fatal(err)
		}
		return quota
	}
	t.Fatal("docs/operations/permissions.md has no ResourceQuota")
	return nil
}

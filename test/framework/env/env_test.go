package env_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithControllerManager(), env.WithAuditLog(),
		env.WithCRDs(filepath.Join("testdata", "crd.yaml")))
}

func TestRestartedAPIServerKeepsData(t *testing.T) {
	env, g := env.Start(t), NewWithT(t)
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "kept"},
		Data:       map[string]string{"key": "value"},
	}
	g.Expect(env.Client.Create(t.Context(), want)).To(Succeed())

	env.StopAPIServer(t)
	err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(want), &corev1.ConfigMap{})
	g.Expect(err).To(MatchError(ContainSubstring("connection refused")))

	env.StartAPIServer(t)
	got := &corev1.ConfigMap{}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(want), got)).To(Succeed())
	g.Expect(got.Data).To(Equal(want.Data))
}

func TestNamespacesAreUnique(t *testing.T) {
	env, g := env.Start(t), NewWithT(t)
	one, other := env.Namespace(t), env.Namespace(t)
	g.Expect(one).To(HavePrefix("testnamespacesareunique-"))
	g.Expect(one).NotTo(Equal(other))
}

func TestControllerManagerCollectsGarbage(t *testing.T) {
	env, g := env.Start(t), NewWithT(t)
	namespace := env.Namespace(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	g.Expect(env.Client.Create(t.Context(), owner)).To(Succeed())
	owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "owned",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}
	g.Expect(env.Client.Create(t.Context(), owned)).To(Succeed())

	g.Expect(env.Client.Delete(t.Context(), owner)).To(Succeed())
	g.Eventually(func() bool {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(owned), &corev1.Secret{})
		return apierrors.IsNotFound(err)
	}).WithTimeout(30 * time.Second).Should(BeTrue())
}

func TestWritesReturnsOnlyWrites(t *testing.T) {
	env, g := env.Start(t), NewWithT(t)
	namespace := env.Namespace(t)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "counted"}}
	g.Expect(env.Client.Create(t.Context(), object)).To(Succeed())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	g.Expect(env.Client.Delete(t.Context(), object)).To(Succeed())

	var verbs []string
	for _, event := range env.Writes(t) {
		if event.ObjectRef.Namespace == namespace && event.User.Username == "admin" {
			verbs = append(verbs, event.Verb)
		}
	}
	g.Expect(verbs).To(Equal([]string{"create", "delete"}))
}

func TestInstallsCRDs(t *testing.T) {
	env, g := env.Start(t), NewWithT(t)
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "test.realmkeeper.dev/v1", Kind: "ThingList"}}
	g.Expect(env.Client.List(t.Context(), list)).To(Succeed())
}

func TestKubectlUsesKubeconfig(t *testing.T) {
	env, g := env.Start(t), NewWithT(t)
	info, err := os.Stat(env.Kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	kubectl := exec.CommandContext(ctx, filepath.Join(env.BinDir, "kubectl"),
		"--kubeconfig", env.Kubeconfig, "auth", "can-i", "*", "*", "--all-namespaces")
	out, err := kubectl.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(strings.TrimSpace(string(out))).To(Equal("yes"))
}

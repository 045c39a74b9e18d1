//go:debug randseednop=0

package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"iter"
	"log/slog"
	"maps"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil // the default ones limit the rate with state that outlives a bubble
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

var (
	realmResource  = v1beta1.GroupVersion.WithResource("realms")
	clientResource = v1beta1.GroupVersion.WithResource("apiclients")
	secretResource = corev1.SchemeGroupVersion.WithResource("secrets")
	leaseResource  = coordinationv1.SchemeGroupVersion.WithResource("leases")
)

var (
	resources   = memory.Resources()
	scheme      = sync.OnceValue(newScheme)
	objectTypes = sync.OnceValue(func() managedfields.TypeConverter {
		return memory.Types(scheme())
	})
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(s))
	must(v1beta1.AddToScheme(s))
	return s
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func nameOf(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func keysOf[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

func sortedKeys[V any](m map[types.NamespacedName]V) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(m), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// verifies reports whether a client has a current verifier of a secret, even if it is disabled.
func (s *server) verifies(c *registry.Client, value string) bool {
	return clientsecret.VerifyHMAC(c.Secrets, value, s.now()) != nil
}

func newHash() hash.Hash64 { return fnv.New64a() }

func (w *world) digest(object *unstructured.Unstructured) uint64 {
	if d, ok := w.digests[object]; ok {
		return d
	}
	h := newHash()
	must(json.NewEncoder(h).Encode(object.Object))
	w.digests[object] = h.Sum64()
	return h.Sum64()
}

// remembered writes the unexported state of a part of the product. It omits what refers to other parts.
func remembered(w io.Writer, v reflect.Value, inside bool) {
	switch v.Kind() {
	case reflect.Struct:
		if strings.HasPrefix(v.Type().PkgPath(), "sync") {
			return
		}
		for i := range v.NumField() {
			if inside || !v.Type().Field(i).IsExported() {
				remembered(w, v.Field(i), true)
			}
		}
	case reflect.Map:
		var entries []string
		for _, key := range v.MapKeys() {
			var entry strings.Builder
			remembered(&entry, key, true)
			remembered(&entry, v.MapIndex(key), true)
			entries = append(entries, entry.String())
		}
		slices.Sort(entries)
		fmt.Fprintln(w, entries)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			remembered(w, v.Index(i), true)
		}
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint64, reflect.Uint32:
		fmt.Fprintln(w, v)
	}
}

// describe returns what is interesting in an object, in a few words.
func describe(object *unstructured.Unstructured) string {
	version := ", revision " + object.GetResourceVersion()
	switch object.GetKind() {
	case "Secret":
		secret := asSecret(object)
		if record.KindOf(secret) == record.KindClient {
			c, err := record.ReadClient(secret)
			if err != nil {
				return "unreadable" + version
			}
			ids := []string{}
			for _, s := range c.Secrets {
				id := s.ID
				if !s.ExpiresAt.IsZero() {
					id += " until " + s.ExpiresAt.Format("15:04:05")
				}
				ids = append(ids, id)
			}
			return fmt.Sprintf("disabled=%t, verifiers %v%s", c.Disabled, ids, version)
		}
		if value := secret.Data[v1beta1.SecretKeyClientSecret]; value != nil {
			return "contains client secret " + short(string(value)) + version
		}
	case "ApiClient", "Realm":
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
				return fmt.Sprintf("generation %d, Ready=%v (%v)%s", object.GetGeneration(), c["status"], c["reason"], version)
			}
		}
	case "Lease":
		return "has loaded " + object.GetAnnotations()[heartbeat.LoadedAnnotation] + version
	}
	return "revision " + object.GetResourceVersion()
}

// short returns the part of a client secret that traces show.
func short(value string) string { return value[max(0, len(value)-6):] }

// seedJitter makes the delays of client-go, which are random, the same in each run.
func seedJitter() { rand.Seed(1) } //nolint:staticcheck // client-go uses the global source.

// Package api_test checks what the API accepts and shows: the rules of the types, the manifests and the
// objects in the documentation, and that the API in memory is the same.
package api_test

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithScheme(testScheme()))
}

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1beta1.AddToScheme(scheme))
	return scheme
}

// validation is an object that the API server accepts, or rejects with the wanted error.
type validation struct {
	name   string // metadata.name; defaults to "acme"
	spec   string // YAML with fields that are added to the minimal valid spec or replace its fields
	noSpec bool

	wantField string // path in the error; empty if the object is accepted
	wantRule  string // substring of the error for this path
}

// transition is a change to a spec. The fields have the same meaning as in validation.
type transition struct {
	name          string
	before, after string

	wantField string
	wantRule  string
}

// kind is a resource kind with test cases for its rules.
type kind struct {
	name        string
	crd         string // file name in config/crd/bases
	minimalSpec string
	validations []map[string]validation
	transitions []map[string]transition
}

var kinds = []kind{
	{
		name:        "Realm",
		crd:         "auth.realmkeeper.dev_realms.yaml",
		minimalSpec: "grants: [{name: all, namespaces: {from: All}, audiences: ['*']}]",
		validations: []map[string]validation{
			realmValidations, grantValidations, rotationValidations,
			lifetimeValidations, scopeValidations, scopeSetValidations, audienceValidations, audienceSetValidations, limitValidations,
			trustedIssuerValidations, issuerKeysValidations, privateKeySetValidations, grantIssuerValidations,
			matching(requiring, firstIssuer+".requiredClaims"),
			claimValidations, reservedClaimValidations, allowedClaimValidations,
			exchangeValidations, exchangeListValidations, exchangeNamespaceValidations, usesValidations,
			matching(fromAnyClient, firstSubjects+".issuer.matchClaims"),
			nested(scopeValidations, inGrant, "spec.grants[0]."), nested(audienceValidations, inGrant, "spec.grants[0]."),
		},
		transitions: []map[string]transition{realmTransitions},
	},
	{
		name:        "ApiClient",
		crd:         "auth.realmkeeper.dev_apiclients.yaml",
		minimalSpec: "{realmRef: {name: acme}, secret: {generated: {}}}",
		validations: []map[string]validation{
			apiClientValidations, generatedSecretValidations, secretRotationValidations, providedSecretValidations, hashParameterValidations,
			publicKeyValidations, privateKeyValidations,
			lifetimeValidations, scopeValidations, scopeSetValidations, audienceValidations, audienceSetValidations, limitValidations,
			identityValidations, matching(identityWithClaims, firstIdentity+".matchClaims"),
			claimValidations, reservedClaimValidations, delegatedScopeValidations,
			nested(audienceValidations, inIntrospection, "spec.introspection."), nested(audienceSetValidations, inIntrospection, "spec.introspection."),
		},
		transitions: []map[string]transition{apiClientTransitions, providedSecretTransitions, publicKeyTransitions, identityTransitions},
	},
}

// kindNamed returns the kind with the given name.
func kindNamed(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}

func TestValidation(t *testing.T) {
	cluster := env.Start(t)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			for name, tc := range merged(kind.validations) {
				t.Run(name, func(t *testing.T) {
					object := kind.object(t, namespace, tc.name, tc.spec)
					if tc.noSpec {
						delete(object.Object, "spec")
					}
					sent := object.DeepCopy()
					err := cluster.Client.Create(t.Context(), object, client.DryRunAll)
					expectValidation(t, err, tc.wantField, tc.wantRule)
					expectSameLocally(t, sent, nil, err)
					if err == nil {
						expectUsable(t, object)
					}
				})
			}
		})
	}
}

func TestTransitions(t *testing.T) {
	cluster := env.Start(t)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			for name, tc := range merged(kind.transitions) {
				t.Run(name, func(t *testing.T) {
					// Cluster-scoped objects have no namespace, so use the namespace's unique name
					// as the object name.
					namespace := cluster.Namespace(t)
					name := tc.name
					if name == "" {
						name = namespace
					}
					object := kind.object(t, namespace, name, tc.before)
					if err := cluster.Client.Create(t.Context(), object); err != nil {
						t.Fatalf("Failed to create the object: %v", err)
					}
					before := object.DeepCopy()
					object.Object["spec"] = kind.object(t, namespace, name, tc.after).Object["spec"]
					sent := object.DeepCopy()
					err := cluster.Client.Update(t.Context(), object)
					expectValidation(t, err, tc.wantField, tc.wantRule)
					expectSameLocally(t, sent, before, err)
				})
			}
		})
	}
}

// object returns the minimal valid object of k with the fields of spec added.
func (k kind) object(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	if name == "" {
		name = "acme"
	}
	metadata := map[string]any{"name": name}
	if k.name != "Realm" {
		metadata["namespace"] = namespace
	}
	members := fromYAML(t, k.minimalSpec)
	maps.Copy(members, fromYAML(t, spec))
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(),
		"kind":       k.name,
		"metadata":   metadata,
		"spec":       members,
	}}
}

func fromYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	members := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &members); err != nil {
		t.Fatalf("Failed to parse %q: %v", text, err)
	}
	return members
}

// merged merges tables. It panics if two cases have the same name.
func merged[T any](tables []map[string]T) map[string]T {
	all := map[string]T{}
	for _, table := range tables {
		for name, tc := range table {
			if _, ok := all[name]; ok {
				panic("two cases have the name " + name)
			}
			all[name] = tc
		}
	}
	return all
}

// expectValidation checks that err names the wanted field and rule, or is nil if no field is
// wanted.
func expectValidation(t *testing.T, err error, wantField, wantRule string) {
	t.Helper()
	if wantField == "" {
		if err != nil {
			t.Errorf("Rejected: %v", err)
		}
		return
	}
	if !apierrors.IsInvalid(err) {
		t.Fatalf("Got error %v, want one with the reason Invalid", err)
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		t.Fatalf("Got error %v, want a response of the API server", err)
	}
	if value := invalidValue.FindString(wantRule); !showsValues(t) {
		wantRule = strings.TrimPrefix(wantRule, value)
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field == wantField && strings.Contains(cause.Message, wantRule) {
			return
		}
	}
	t.Errorf("Got error %v, want one for %s with %q", err, wantField, wantRule)
}

// invalidValue is what a message says about a value that a rule rejects.
var invalidValue = regexp.MustCompile(`^Invalid value: "[^"]*": `)

// showsValues reports whether the messages of the API server contain the values that rules reject. Before
// Kubernetes 1.35, they contain their types.
func showsValues(t *testing.T) bool {
	t.Helper()
	return env.Start(t).Version.AtLeast(version.MajorMinor(1, 35))
}

// expectUsable checks that Go and Kubernetes can use an object that the API server accepted. A
// single unreadable object in a list stops the informer for all objects.
func expectUsable(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	typed, err := testScheme().New(object.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		t.Fatalf("Object was accepted but cannot be decoded: %v", err)
	}
	switch typed := typed.(type) {
	case *v1beta1.Realm:
		for _, grant := range typed.Spec.Grants {
			s := grant.Namespaces.Selector
			if s == nil {
				continue
			}
			if _, err := metav1.LabelSelectorAsSelector(s.LabelSelector()); err != nil {
				t.Errorf("Selector was accepted but is not a valid label selector: %v", err)
			}
		}
	case *v1beta1.ApiClient:
		expectSecretIsAccepted(t, typed)
	}
}

// expectSecretIsAccepted checks that the API server accepts the credentials Secret of apiClient.
func expectSecretIsAccepted(t *testing.T, apiClient *v1beta1.ApiClient) {
	t.Helper()
	generated := apiClient.GeneratedSecret()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: apiClient.Namespace, Name: apiClient.EffectiveSecretName(),
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Data: map[string][]byte{},
	}
	for key, value := range generated.Template.Labels {
		secret.Labels[key] = string(value)
	}
	for key, value := range generated.Template.Annotations {
		secret.Annotations[key] = string(value)
	}
	for _, key := range generated.Keys {
		secret.Data[string(key)] = nil
	}
	if err := env.Start(t).Client.Create(t.Context(), secret, client.DryRunAll); err != nil {
		t.Errorf("ApiClient was accepted but its Secret was rejected: %v", err)
	}
}

// TestUnknownFieldsAreNamed checks that strict field validation names an unknown field.
func TestUnknownFieldsAreNamed(t *testing.T) {
	cluster := env.Start(t)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			object := kind.object(t, cluster.Namespace(t), "", "rotation: {}")
			sent := object.DeepCopy()
			err := cluster.Client.Create(t.Context(), object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.rotation"`) {
				t.Errorf("Got error %v, want a bad request that names the unknown field", err)
			}
			expectSameLocally(t, sent, nil, err)
		})
	}
}

// TestSpecHasNoDefaults checks that the API server adds no defaults.
func TestSpecHasNoDefaults(t *testing.T) {
	cluster := env.Start(t)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			object := kind.object(t, cluster.Namespace(t), "", "")
			want := object.DeepCopy().Object["spec"]
			if err := cluster.Client.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, object.Object["spec"]); diff != "" {
				t.Errorf("Spec (-written +stored):\n%s", diff)
			}
		})
	}
}

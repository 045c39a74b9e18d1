package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1beta1ac "github.com/realmkeeper/realmkeeper/api/v1beta1/applyconfiguration/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/admission"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/operator"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The same requests get the same responses from the API in memory and from a real API server: objects with
// their managed fields, errors, lists, and the events of a watch.
func TestSameAsAPIServer(t *testing.T) {
	cluster := env.Start(t)
	scheme, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := admission.Load()
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Options{
		Resources: memory.Resources(), Types: memory.Types(scheme), Admit: rules.Admit, Now: time.Now, NewUID: uuid.NewUUID,
	})
	if err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	transcripts := map[string][]string{}
	for name, cfg := range map[string]*rest.Config{"API server": cluster.Config, "memory": {Host: "http://memory", Transport: store.Transport()}} {
		cfg = rest.CopyConfig(cfg)
		cfg.ContentType, cfg.UserAgent = "application/json", "script"
		c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme, Mapper: cluster.Client.RESTMapper()})
		if err != nil {
			t.Fatal(err)
		}
		transcripts[name] = newScript(t, c, namespace).run()
	}
	if diff := gocmp.Diff(transcripts["API server"], transcripts["memory"]); diff != "" {
		t.Errorf("responses (-API server +memory):\n%s", diff)
	}
}

// script sends requests and records the responses.
type script struct {
	t         *testing.T
	c         client.WithWatch
	namespace string
	names     map[string]string // what replaces UIDs and resource versions
	lines     []string
}

func newScript(t *testing.T, c client.WithWatch, namespace string) *script {
	return &script{t: t, c: c, namespace: namespace, names: map[string]string{}}
}

// note records the result of a step.
func (s *script) note(step string, result any, err error) {
	s.t.Helper()
	if err != nil {
		status := metav1.Status{Message: err.Error()}
		if api := apierrors.APIStatus(nil); errors.As(err, &api) {
			status = api.Status()
		}
		s.lines = append(s.lines, fmt.Sprintf("%s: %d %s: %s", step, status.Code, status.Reason, s.normal(status.Message)))
		return
	}
	if object, ok := result.(client.Object); ok {
		result = inOrder(object)
	}
	encoded, err := json.MarshalIndent(result, "", " ")
	if err != nil {
		s.t.Fatal(err)
	}
	s.lines = append(s.lines, step+": "+s.normal(string(encoded)))
}

// inOrder returns a copy whose managed fields are in the order of their managers. In an API they are in the
// order of their times, which are in seconds: two managers of one second are in the order of their names.
func inOrder(object client.Object) client.Object {
	object = object.DeepCopyObject().(client.Object)
	fields := object.GetManagedFields()
	slices.SortFunc(fields, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(strings.Compare(a.Manager, b.Manager), strings.Compare(string(a.Operation), string(b.Operation)),
			strings.Compare(a.Subresource, b.Subresource))
	})
	object.SetManagedFields(fields)
	return object
}

var (
	uids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	versions = regexp.MustCompile(`("resourceVersion": "|ResourceVersion in (?:the precondition|record) \()([0-9]+)`)
	values   = regexp.MustCompile(`Invalid value: "[^"]*":`)
	times    = regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z"`)
)

// normal replaces what differs between two runs by names in the order of their appearance.
func (s *script) normal(text string) string {
	named := func(kind, value string) string {
		if s.names[value] == "" {
			s.names[value] = fmt.Sprintf("<%s %d>", kind, len(s.names))
		}
		return s.names[value]
	}
	if !showsValues(s.t) {
		text = values.ReplaceAllString(text, `Invalid value: "string":`)
	}
	text = uids.ReplaceAllStringFunc(text, func(uid string) string { return named("uid", uid) })
	text = versions.ReplaceAllStringFunc(text, func(match string) string {
		parts := versions.FindStringSubmatch(match)
		return parts[1] + named("version", parts[2])
	})
	return strings.ReplaceAll(times.ReplaceAllString(text, `"<time>"`), s.namespace, "<namespace>")
}

const manager = "script"

func (s *script) secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"app": "a"}}, StringData: map[string]string{"key": "value"}}
}

func (s *script) create(step string, object client.Object) {
	s.t.Helper()
	s.note("create "+step, object, s.c.Create(s.t.Context(), object, client.FieldOwner(manager)))
}

// apply applies the configuration of a Secret, and records the Secret.
func (s *script) apply(step string, desired *corev1ac.SecretApplyConfiguration, options ...client.ApplyOption) {
	s.t.Helper()
	err := s.c.Apply(s.t.Context(), desired, append(options, client.FieldOwner(manager))...)
	s.note("apply "+step, s.get(*desired.GetName()), err)
}

func (s *script) get(name string) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := s.c.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, secret); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return secret
}

func (s *script) desired(name string) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(name, s.namespace).WithLabels(map[string]string{"app": "a"})
}

func (s *script) run() []string {
	first := &corev1.SecretList{}
	if err := s.c.List(s.t.Context(), first, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	s.secrets()
	s.status()
	s.lists()
	s.watch(first.ResourceVersion)
	return s.lines
}

// secrets changes Secrets as the operator does.
func (s *script) secrets() {
	ctx := s.t.Context()
	a := s.secret("a")
	s.create("a Secret", a)
	s.create("it again", s.secret("a"))
	stale := a.DeepCopy()

	s.note("patch a label", a, s.c.Patch(ctx, a, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"other":"b"}}}`)), client.FieldOwner("kubectl")))
	s.note("patch without a change", a, s.c.Patch(ctx, a, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"other":"b"}}}`)), client.FieldOwner("kubectl")))
	s.note("patch a stale version", nil, s.c.Patch(ctx, stale.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{"other":"c"}}}`, stale.ResourceVersion))))
	s.note("patch what is missing", nil, s.c.Patch(ctx, s.secret("missing"), client.RawPatch(types.MergePatchType, []byte(`{}`))))

	upgrade, err := csaupgrade.UpgradeManagedFieldsPatch(a, sets.New(manager), manager)
	if err != nil {
		s.t.Fatal(err)
	}
	s.note("move the fields to Apply", a, s.c.Patch(ctx, a, client.RawPatch(types.JSONPatchType, upgrade)))
	owner := metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName("x").WithUID(a.UID).WithController(true)
	s.apply("with an owner", s.desired("a").WithResourceVersion(a.ResourceVersion).WithUID(a.UID).WithOwnerReferences(owner).
		WithData(map[string][]byte{"key": []byte("value"), "second": []byte("2")}), client.ForceOwnership)
	s.apply("without the second key", s.desired("a").WithData(map[string][]byte{"key": []byte("changed")}), client.ForceOwnership)
	s.apply("the same again", s.desired("a").WithData(map[string][]byte{"key": []byte("changed")}), client.ForceOwnership)
	s.apply("a stale version", s.desired("a").WithResourceVersion(stale.ResourceVersion), client.ForceOwnership)
	s.apply("to a missing one with a version", s.desired("missing").WithResourceVersion("1"), client.ForceOwnership)
	s.apply("the label of another manager", s.desired("a").WithLabels(map[string]string{"other": "mine"}).WithData(map[string][]byte{"key": []byte("changed")}))
	s.apply("and take it", s.desired("a").WithLabels(map[string]string{"other": "mine"}).WithData(map[string][]byte{"key": []byte("changed")}), client.ForceOwnership)
	s.apply("a new one", s.desired("b").WithData(map[string][]byte{"key": []byte("value")}), client.ForceOwnership)

	update := s.get("a")
	update.Labels["updated"] = "yes"
	s.note("update", update, s.c.Update(ctx, update, client.FieldOwner("kubectl")))
	stale.Labels["updated"] = "no"
	s.note("update a stale version", nil, s.c.Update(ctx, stale, client.FieldOwner("kubectl")))

	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = s.c.Get(ctx, client.ObjectKeyFromObject(a), metadata)
	s.note("get the metadata", metadata, err)
	s.note("get what is missing", nil, s.c.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "absent"}, &corev1.Secret{}))

	b := s.get("b")
	s.note("delete another UID", nil, s.c.Delete(ctx, b, client.Preconditions{UID: &a.UID}))
	s.note("delete a stale version", nil, s.c.Delete(ctx, b, client.Preconditions{ResourceVersion: &a.ResourceVersion}))
	s.note("delete", nil, s.c.Delete(ctx, b, client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion}))
	s.note("delete it again", nil, s.c.Delete(ctx, b))
}

// status changes the spec and the status of an ApiClient.
func (s *script) status() {
	ctx := s.t.Context()
	c := install.ApiClient(s.namespace, "billing", "acme")
	s.create("an ApiClient", c)
	apply := func(step string, desired *v1beta1ac.ApiClientStatusApplyConfiguration, version string) {
		s.t.Helper()
		configuration := v1beta1ac.ApiClient(c.Name, c.Namespace).WithStatus(desired)
		if version != "" {
			configuration.WithResourceVersion(version)
		}
		err := s.c.Status().Apply(ctx, configuration, client.FieldOwner(manager), client.ForceOwnership)
		if get := s.c.Get(ctx, client.ObjectKeyFromObject(c), c); get != nil {
			s.t.Fatal(get)
		}
		s.note("apply the status "+step, c, err)
	}
	condition := func(kind string, status metav1.ConditionStatus) *metav1ac.ConditionApplyConfiguration {
		return metav1ac.Condition().WithType(kind).WithStatus(status).WithReason("Because").WithMessage("It is.").WithLastTransitionTime(metav1.NewTime(c.CreationTimestamp.Time))
	}
	first := c.ResourceVersion
	apply("with two conditions", v1beta1ac.ApiClientStatus().WithObservedGeneration(1).WithClientID("billing").
		WithConditions(condition("Ready", metav1.ConditionFalse), condition("Accepted", metav1.ConditionTrue)), c.ResourceVersion)
	apply("with one condition", v1beta1ac.ApiClientStatus().WithObservedGeneration(1).WithConditions(condition("Ready", metav1.ConditionTrue)), c.ResourceVersion)
	apply("of a stale version", v1beta1ac.ApiClientStatus().WithObservedGeneration(2), first)
	s.note("patch the spec", c, s.c.Patch(ctx, c, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true},"status":{"clientID":"ignored"}}`)), client.FieldOwner("kubectl")))
	s.note("break a rule", nil, s.c.Patch(ctx, c.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"realmRef":{"name":"other"}}}`)), client.FieldOwner("kubectl")))
	s.note("create an invalid ApiClient", nil, s.c.Create(ctx, install.ApiClient(s.namespace, "invalid", "Not A Name")))
	s.note("patch a label", c, s.c.Patch(ctx, c, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.FieldOwner("kubectl")))
	missing := v1beta1ac.ApiClient("missing", s.namespace).WithStatus(v1beta1ac.ApiClientStatus().WithObservedGeneration(1))
	s.note("apply the status of a missing one", nil, s.c.Status().Apply(ctx, missing, client.FieldOwner(manager), client.ForceOwnership))
	s.note("delete the ApiClient", nil, s.c.Delete(ctx, c))
}

func (s *script) lists() {
	ctx := s.t.Context()
	s.create("a Secret with another label", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "c", Labels: map[string]string{"app": "c"}}})
	for n, options := range [][]client.ListOption{
		nil,
		{client.MatchingLabels{"app": "c"}},
		{client.HasLabels{"updated"}},
		{client.MatchingFields{"metadata.name": "c"}},
		{client.MatchingLabels{"app": "x"}},
	} {
		list := &corev1.SecretList{}
		step := strconv.Itoa(n)
		err := s.c.List(ctx, list, append(options, client.InNamespace(s.namespace))...)
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		if err != nil || list.ResourceVersion == "" {
			s.t.Errorf("list %s: version %q, error %v", step, list.ResourceVersion, err)
		}
		s.lines = append(s.lines, "list "+step+": "+strings.Join(names, " "))
	}
}

// watch records the events since a version, once for all Secrets and once for those with a label.
func (s *script) watch(version string) {
	for n, options := range [][]client.ListOption{nil, {client.MatchingLabels{"other": "b"}}} {
		step := strconv.Itoa(n)
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		options = append(options, client.InNamespace(s.namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		w, err := s.c.Watch(ctx, &corev1.SecretList{}, options...)
		if err != nil {
			s.t.Fatal(err)
		}
		last := s.secret("last-" + step)
		last.Labels["other"] = "b"
		if err := s.c.Create(ctx, last); err != nil {
			s.t.Fatal(err)
		}
		for event := range w.ResultChan() {
			secret, ok := event.Object.(*corev1.Secret)
			if !ok {
				s.t.Fatalf("event %+v", event)
			}
			secret.ManagedFields = nil
			s.note("event "+step+" "+string(event.Type), secret, nil)
			if event.Type == watch.Added && secret.Name == last.Name {
				break
			}
		}
		w.Stop()
		cancel()
		if err := s.c.Delete(s.t.Context(), last); err != nil {
			s.t.Fatal(err)
		}
	}
}

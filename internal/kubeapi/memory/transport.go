package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Transport returns a transport that sends requests to the store. A client that uses it must have the
// content type application/json.
func (s *Store) Transport() http.RoundTripper { return transport{s} }

type transport struct{ store *Store }

// RoundTrip handles a request. The body of the response to a watch ends with the request's context.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	q, err := t.parse(r)
	if err == nil && q.watch {
		return t.watch(r, q)
	}
	var result any
	if err == nil {
		result, err = t.handle(r, q)
	}
	code := http.StatusOK
	if err != nil {
		status := statusOf(err)
		result, code = status, int(status.Code)
	} else if r.Method == http.MethodPost {
		code = http.StatusCreated
	}
	body, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	return respond(r, code, io.NopCloser(bytes.NewReader(body))), nil
}

func respond(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: body, ContentLength: -1,
		Header: http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
	}
}

func statusOf(err error) *metav1.Status {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		api = apierrors.NewInternalError(err)
	}
	status := api.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

// request is what a URL requests.
type request struct {
	resource     *Resource
	name         types.NamespacedName
	subresource  string
	query        url.Values
	selection    Selection
	watch        bool
	onlyMetadata bool
}

// parse parses the URL of a request, such as /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/status.
func (t transport) parse(r *http.Request) (request, error) {
	q := request{query: r.URL.Query(), onlyMetadata: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return q, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path)
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.name.Namespace, parts = parts[1], parts[2:]
	}
	var err error
	if q.resource, err = t.store.Resource(gv.WithResource(parts[0])); err != nil {
		return q, err
	}
	if len(parts) > 1 {
		q.name.Name = parts[1]
	}
	if len(parts) > 2 {
		q.subresource = parts[2]
	}
	q.watch = q.query.Get("watch") == "true" || q.query.Get("watch") == "1"
	q.selection = Selection{Namespace: q.name.Namespace}
	if q.selection.Labels, err = labels.Parse(q.query.Get("labelSelector")); err != nil {
		return q, apierrors.NewBadRequest(err.Error())
	}
	if q.selection.Fields, err = fields.ParseSelector(q.query.Get("fieldSelector")); err != nil {
		return q, apierrors.NewBadRequest(err.Error())
	}
	return q, nil
}

func (t transport) handle(r *http.Request, q request) (any, error) {
	if q.query.Get("dryRun") != "" {
		return nil, apierrors.NewBadRequest("dryRun is not supported")
	}
	switch {
	case r.Method == http.MethodGet && q.name.Name == "":
		return t.list(q), nil
	case r.Method == http.MethodGet:
		object, err := t.store.Get(q.resource.GroupVersionResource, q.name)
		return q.view(object), err
	case r.Body == nil:
		return t.write(r, q, nil)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return t.write(r, q, body)
}

func (t transport) write(r *http.Request, q request, body []byte) (any, error) {
	options := WriteOptions{Manager: q.query.Get("fieldManager"), Subresource: q.subresource, Force: q.query.Get("force") == "true"}
	if options.Manager == "" {
		options.Manager, _, _ = strings.Cut(r.UserAgent(), "/")
	}
	kind := types.PatchType(r.Header.Get("Content-Type"))
	switch {
	case r.Method == http.MethodDelete:
		return t.delete(q, body)
	case r.Method == http.MethodPatch && kind != types.ApplyPatchType:
		return result(t.store.Patch(r.Context(), q.resource.GroupVersionResource, q.name, kind, body, options))
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if q.resource.Namespaced {
		object.SetNamespace(q.name.Namespace)
	}
	switch r.Method {
	case http.MethodPost:
		return result(t.store.Create(r.Context(), object, options))
	case http.MethodPut:
		return result(t.store.Update(r.Context(), object, options))
	case http.MethodPatch:
		object.SetName(q.name.Name)
		return result(t.store.Apply(r.Context(), object, options))
	}
	return nil, apierrors.NewMethodNotSupported(q.resource.GroupResource(), r.Method)
}

func (t transport) delete(q request, body []byte) (any, error) {
	options := metav1.DeleteOptions{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if _, err := t.store.Delete(q.resource.GroupVersionResource, q.name, options.Preconditions); err != nil {
		return nil, err
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, nil
}

// result avoids an interface with a nil pointer.
func result(object *unstructured.Unstructured, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return object, nil
}

// view returns an object, or its metadata if only that is requested.
func (q *request) view(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object == nil || !q.onlyMetadata {
		return object
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata", "metadata": object.Object["metadata"],
	}}
}

// list is a list of objects.
type list struct {
	metav1.TypeMeta `json:",inline"`

	Metadata metav1.ListMeta              `json:"metadata"`
	Items    []*unstructured.Unstructured `json:"items"`
}

func (t transport) list(q request) list {
	objects, revision := t.store.List(q.resource.GroupVersionResource, q.selection)
	l := list{
		TypeMeta: metav1.TypeMeta{APIVersion: q.resource.GroupVersion().String(), Kind: q.resource.Kind + "List"},
		Metadata: metav1.ListMeta{ResourceVersion: strconv.FormatInt(revision, 10)}, Items: []*unstructured.Unstructured{},
	}
	if q.onlyMetadata {
		l.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadataList"}
	}
	for _, object := range objects {
		l.Items = append(l.Items, q.view(object))
	}
	return l
}

// watch responds with the events after the requested resource version.
func (t transport) watch(r *http.Request, q request) (*http.Response, error) {
	fail := func(err error) (*http.Response, error) {
		status := statusOf(err)
		body, err := json.Marshal(status)
		return respond(r, int(status.Code), io.NopCloser(bytes.NewReader(body))), err
	}
	if q.query.Get("sendInitialEvents") != "" {
		return fail(apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)) // Clients list instead.
	}
	revision, err := strconv.ParseInt(q.query.Get("resourceVersion"), 10, 64)
	if err != nil {
		return fail(apierrors.NewBadRequest("a watch needs a resource version: " + err.Error()))
	}
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(t.send(r, q, revision, json.NewEncoder(writer))) }()
	return respond(r, http.StatusOK, reader), nil
}

// event is an event of a watch.
type event struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

// send writes the events after a revision until the request ends.
func (t transport) send(r *http.Request, q request, revision int64, out *json.Encoder) error {
	for {
		events, next, err := t.store.Since(revision)
		if err != nil {
			return out.Encode(event{"ERROR", statusOf(err)})
		}
		for _, e := range events {
			revision = e.Revision
			if e.Resource != q.resource.GroupVersionResource {
				continue
			}
			if e, ok := q.selection.Select(e); ok {
				if err := out.Encode(event{string(e.Type), q.view(e.Object)}); err != nil {
					return err
				}
			}
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-next:
		}
	}
}

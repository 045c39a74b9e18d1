package feed_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
)

var mediaTypes = []string{"application/json", "application/vnd.kubernetes.protobuf"}

// received is what an API server receives.
type received struct {
	Method, URL, Accept, ContentType, UserAgent, Body string
}

// recordingServer returns an API server that sends one response, and the last request that it got.
func recordingServer(t *testing.T, status int, mediaType string, body []byte) (cfg *rest.Config, last *received) {
	t.Helper()
	last = &received{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content := testkit.Value(io.ReadAll(r.Body))(t)
		*last = received{r.Method, r.URL.String(), r.Header.Get("Accept"), r.Header.Get("Content-Type"), r.UserAgent(), string(content)}
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: mediaType}}, last
}

// calls are the requests of a token server, by name.
var calls = map[string]func(ctx context.Context, c feed.Client) (any, error){
	"get": func(ctx context.Context, c feed.Client) (any, error) {
		return c.Secrets.Get(ctx, "a", metav1.GetOptions{})
	},
	"list": func(ctx context.Context, c feed.Client) (any, error) {
		return c.Secrets.List(ctx, metav1.ListOptions{LabelSelector: "a=b", Limit: 500, TimeoutSeconds: new(int64(3))})
	},
	"watch": func(ctx context.Context, c feed.Client) (any, error) {
		events, err := c.Secrets.Watch(ctx, metav1.ListOptions{
			LabelSelector: "a=b", ResourceVersion: "1", AllowWatchBookmarks: true, SendInitialEvents: new(true), TimeoutSeconds: new(int64(3)),
		})
		if err == nil {
			events.Stop()
		}
		return nil, err
	},
	"create": func(ctx context.Context, c feed.Client) (any, error) {
		return c.ConfigMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{FieldManager: "m"})
	},
	"update": func(ctx context.Context, c feed.Client) (any, error) {
		return c.ConfigMaps.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}}, metav1.UpdateOptions{FieldManager: "m"})
	},
	"apply": func(ctx context.Context, c feed.Client) (any, error) {
		return c.Leases.Patch(ctx, "a", types.ApplyYAMLPatchType, []byte("{}"), metav1.PatchOptions{FieldManager: "m", Force: new(true)})
	},
	"delete": func(ctx context.Context, c feed.Client) (any, error) {
		return nil, c.Leases.Delete(ctx, "a", metav1.DeleteOptions{})
	},
}

// Each request is the same as that of client-go's typed clients, and so is what it returns.
func TestClient(t *testing.T) {
	for _, mediaType := range mediaTypes {
		for name, call := range calls {
			t.Run(mediaType+" "+name, func(t *testing.T) {
				for status, reason := range map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 410: metav1.StatusReasonExpired} {
					response := encode(t, mediaType, &metav1.Status{Status: metav1.StatusFailure, Reason: reason, Code: int32(status), Message: "no"})
					cfg, last := recordingServer(t, status, mediaType, response)
					_, wantErr := call(t.Context(), typed(t, cfg))
					want := *last
					_, err := call(t.Context(), testkit.Value(feed.NewClient(cfg, "records"))(t))
					testkit.Diff(t, "request", want, *last)
					testkit.Diff(t, "error", wantErr, err)
					testkit.Diff(t, "reason", reason, apierrors.ReasonForError(err))
				}
			})
		}
	}
}

// typed returns a client with client-go's typed clients.
func typed(t *testing.T, cfg *rest.Config) feed.Client {
	t.Helper()
	api := testkit.Value(kubernetes.NewForConfig(cfg))(t)
	return feed.Client{Secrets: api.CoreV1().Secrets("records"), Leases: api.CoordinationV1().Leases("records"), ConfigMaps: api.CoreV1().ConfigMaps("records")}
}

func encode(t *testing.T, mediaType string, o runtime.Object) []byte {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	return testkit.Value(runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), o))(t)
}

// Objects are decoded in both media types.
func TestClientDecodes(t *testing.T) {
	for _, mediaType := range mediaTypes {
		secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}, Data: map[string][]byte{"record": {1, 2}}}
		cfg, _ := recordingServer(t, http.StatusOK, mediaType, encode(t, mediaType, &secret))
		got := testkit.Value(testkit.Value(feed.NewClient(cfg, "records"))(t).Secrets.Get(t.Context(), "a", metav1.GetOptions{}))(t)
		testkit.Diff(t, "Secret", secret.Data, got.Data)
		cfg, _ = recordingServer(t, http.StatusOK, mediaType, encode(t, mediaType, &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Secret{secret}}))
		list := testkit.Value(testkit.Value(feed.NewClient(cfg, "records"))(t).Secrets.List(t.Context(), metav1.ListOptions{}))(t)
		testkit.Diff(t, "resource version of the list", "9", list.ResourceVersion)
		testkit.Diff(t, "Secret in the list", secret.Data, list.Items[0].Data)
	}
}

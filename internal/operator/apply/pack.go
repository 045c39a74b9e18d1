package apply

import (
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// digestKey is the annotation of a cached Secret with the digest of what the operator has set. The API
// server rejects this key, so no user can set the annotation.
const digestKey = "Realmkeeper Digest"

// Pack changes a Secret of the API server into one for a cache. It keeps the identity, the owners, and the
// type, and what the arguments contain. With the result of Unpack, the function Secret still detects every
// change to what the operator has set.
//
// The arguments and the digest become a protobuf message in selfLink, which no API server sets any more,
// because maps of a few small values take several times the memory of the values.
func Pack(live *corev1.Secret, annotations map[string]string, data map[string][]byte) {
	content := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{digestKey: digestOf(live)}}, Data: data}
	maps.Copy(content.Annotations, annotations)
	packed, err := content.Marshal()
	if err != nil {
		panic(err) // Maps always encode.
	}
	live.Annotations = sharedAnnotations(live.Annotations[v1beta1.AppliedFieldsAnnotation])
	live.Labels, live.Data, live.ManagedFields = nil, nil, nil
	*packedIn(live) = string(packed)
}

// Unpack returns the content of a Secret in a cache: the identity, and what Pack kept. The caller must not
// change owners and labels. A Secret that isn't packed is returned as it is.
func Unpack(cached *corev1.Secret) *corev1.Secret {
	packed := *packedIn(cached)
	if packed == "" {
		return cached
	}
	content := &corev1.Secret{}
	if err := content.Unmarshal([]byte(packed)); err != nil {
		panic(fmt.Sprintf("unpacking Secret %s/%s: %v", cached.Namespace, cached.Name, err)) // Pack wrote it.
	}
	unpacked := *cached
	*packedIn(&unpacked), unpacked.Data, unpacked.Annotations = "", content.Data, content.Annotations
	maps.Copy(unpacked.Annotations, cached.Annotations)
	return &unpacked
}

// packedIn returns the field that contains the packed content; empty if there is none.
func packedIn(cached *corev1.Secret) *string {
	return &cached.SelfLink //nolint:staticcheck // It is deprecated because no API server sets it any more.
}

// NoSummary are the annotations of a cached Secret that the operator doesn't write.
var NoSummary = map[string]string{digestKey: ""}

// Stripped reports whether a Secret was changed for a cache, by Pack or with NoSummary. Client libraries
// transform objects more than once before they cache them.
func Stripped(cached *corev1.Secret) bool {
	_, ok := cached.Annotations[digestKey]
	return ok || *packedIn(cached) != ""
}

// maxShared limits the number of shared maps, because users can change the annotation in them.
const maxShared = 64

// shared contains maps with the annotation v1beta1.AppliedFieldsAnnotation, which is the same for many Secrets.
var shared = struct {
	sync.Mutex

	annotations map[string]map[string]string // by the annotation's value
}{annotations: map[string]map[string]string{}}

func sharedAnnotations(fields string) map[string]string {
	shared.Lock()
	defer shared.Unlock()
	annotations, ok := shared.annotations[fields]
	if !ok {
		if len(shared.annotations) == maxShared {
			clear(shared.annotations)
		}
		annotations = map[string]string{v1beta1.AppliedFieldsAnnotation: fields}
		shared.annotations[fields] = annotations
	}
	return annotations
}

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// containerName is the name of the operator's container in its Pod.
const containerName = "operator"

var errNoImage = errors.New("no token server image: set tokenServer.image in the configuration, --token-server-image or POD_NAME")

// complete sets the operator's service account, and the image of the token servers if none is configured, to
// those of the operator's own Pod, which it reads once. Outside a cluster, there is no Pod.
//
// Errors: ErrConfiguration.
func (o *Options) complete(ctx context.Context, reader client.Reader) error {
	pod := &corev1.Pod{}
	if o.Pod != "" && o.account == "" {
		err := reader.Get(ctx, client.ObjectKey{Namespace: o.Instance.SystemNamespace, Name: o.Pod}, pod)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: reading Pod %q from POD_NAME: %w", ErrConfiguration, o.Pod, err)
		}
		if err != nil {
			return fmt.Errorf("reading Pod %q from POD_NAME: %w", o.Pod, err)
		}
	}
	image, err := tokenServerImage(pod, o.Image)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	o.Image, o.account = image, cmp.Or(o.account, pod.Spec.ServiceAccountName)
	return nil
}

// tokenServerImage returns the configured image. It defaults to the image of this process, so that
// operator and token servers have the same version.
func tokenServerImage(pod *corev1.Pod, configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	if pod.Name == "" {
		return "", errNoImage
	}
	for i := range pod.Spec.Containers {
		// Search by name, because service meshes may insert containers before this one.
		if c := &pod.Spec.Containers[i]; c.Name == containerName {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("%w: Pod %s has no container %q", errNoImage, pod.Name, containerName)
}

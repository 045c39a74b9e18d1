package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// containerName is the name of the operator's container in its Pod.
const containerName = "operator"

var errNoImage = errors.New("no token server image: set tokenServer.image in the configuration, --token-server-image or POD_NAME")

// ownPod returns the Pod of this process. It returns an empty Pod if POD_NAME is not set, for
// example outside a cluster.
func ownPod(ctx context.Context, cfg *rest.Config, namespace string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	name := os.Getenv("POD_NAME")
	if name == "" {
		return pod, nil
	}
	reader, err := client.New(cfg, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return nil, fmt.Errorf("reading Pod %q from POD_NAME: %w", name, err)
	}
	return pod, nil
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

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

// containerName is the name of the operator's container in its pod.
const containerName = "operator"

var errNoImage = errors.New("tokenServer.image is not set in the configuration, and POD_NAME names no pod whose image to take; set one of them or --token-server-image")

// ownPod returns the pod that this process runs in; an empty one outside a cluster, where
// POD_NAME isn't set.
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
		return nil, fmt.Errorf("reading this process's pod, which POD_NAME names, for its image and service account: %w", err)
	}
	return pod, nil
}

// tokenServerImage returns the configured image, or the one that this process runs from,
// so that operator and token servers are of one version.
func tokenServerImage(pod *corev1.Pod, configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	if pod.Name == "" {
		return "", errNoImage
	}
	for i := range pod.Spec.Containers {
		// By name: meshes put containers of their own first.
		if c := &pod.Spec.Containers[i]; c.Name == containerName {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("%w: pod %s has no container %q", errNoImage, pod.Name, containerName)
}

package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
)

// reportKubernetes logs whether the version of Kubernetes is supported. The operator starts with any
// version, because the certificates and keys of a running instance would expire without it. Helm
// doesn't install the chart in a cluster that is too old.
func reportKubernetes(ctx context.Context, logger logr.Logger, cfg *rest.Config) {
	logger = logger.WithValues("supported", version.SupportedKubernetes)
	gitVersion, err := kubernetesVersion(ctx, cfg)
	if err != nil {
		// Administrators can deny access to the version.
		logger.Info("Failed to get the Kubernetes version", "error", err.Error())
		return
	}
	logger = logger.WithValues("kubernetesVersion", gitVersion)
	switch err := version.CheckKubernetes(gitVersion); {
	case errors.Is(err, version.ErrKubernetesTooOld):
		logger.Error(err, "Kubernetes version is not supported")
	case err != nil:
		logger.Info("Kubernetes version is not tested", "reason", err.Error())
	default:
		logger.Info("Kubernetes version is supported")
	}
}

func kubernetesVersion(ctx context.Context, cfg *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return "", fmt.Errorf("connecting to the API server: %w", err)
	}
	server, err := client.ServerVersionWithContext(ctx)
	if err != nil {
		return "", fmt.Errorf("reading /version: %w", err)
	}
	return server.GitVersion, nil
}

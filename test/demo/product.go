package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/config"
	"github.com/realmkeeper/realmkeeper/internal/servingcert"
)

const instanceConfiguration = `# The instance that make demo runs. docs/operations.md describes every key.
apiVersion: config.realmkeeper.dev/v1alpha1
kind: InstanceConfiguration
instanceDomain: realmkeeper.localhost # every name below localhost is this machine (RFC 6761)
externalPort: %d
security:
  defaultTokenLifetime: 1h
tokenServer:
  # There is no such image: the Pods of the operator's Deployment have no node to run on.
  image: realmkeeper:demo
`

// startOperator starts the operator unless it runs.
func (d *demo) startOperator(ctx context.Context) error {
	if d.isRunning(operator) {
		return nil
	}
	if d.ports.Public == 0 {
		if err := d.ports.choose(); err != nil {
			return err
		}
		if err := d.ports.save(d.file(portsFile)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(d.file("config.yaml"), fmt.Appendf(nil, instanceConfiguration, d.ports.Public), 0o600); err != nil {
		return err
	}
	kubeconfig, err := d.serviceAccountKubeconfig(ctx, "realmkeeper-"+operator)
	if err != nil {
		return err
	}
	err = d.start("operator", operator, nil,
		"--config="+d.file("config.yaml"),
		"--namespace="+systemNamespace,
		"--kubeconfig="+kubeconfig,
		// There is one operator, and one that was killed holds its Lease for a while.
		"--leader-elect=false",
		"--health-probe-bind-address=0",
		"--metrics-bind-address=0",
	)
	if err != nil {
		return err
	}
	// The Deployment is the last that it makes for the token servers: what they need is
	// there then, rights and certificate.
	key := client.ObjectKey{Namespace: systemNamespace, Name: config.TokenServiceName}
	return d.await(ctx, "waiting for the operator", func(ctx context.Context) error {
		return d.cluster.Get(ctx, key, &appsv1.Deployment{})
	})
}

// startTokenServers starts those that don't run, and waits until they serve.
//
// In a cluster a Service spreads connections over the token servers' Pods. Here the
// kernel does: the two listen at one port with SO_REUSEPORT, and each new connection
// goes to one of those that still listen.
func (d *demo) startTokenServers(ctx context.Context) error {
	if err := d.writeServingCertificate(ctx); err != nil {
		return err
	}
	if !d.isRunning(tokenServer(0)) && !d.isRunning(tokenServer(1)) {
		if err := d.ports.reserve(d.ports.Public); err != nil {
			return err
		}
	}
	for i, port := range d.ports.Operations {
		if d.isRunning(tokenServer(i)) {
			continue
		}
		if err := d.ports.reserve(port); err != nil {
			return err
		}
		kubeconfig, err := d.serviceAccountKubeconfig(ctx, config.TokenServiceName)
		if err != nil {
			return err
		}
		err = d.start("token-server", tokenServer(i), []int{d.ports.Public, port},
			"--name="+tokenServer(i),
			"--namespace="+systemNamespace,
			"--kubeconfig="+kubeconfig,
			"--listen="+address(d.ports.Public),
			"--reuse-port",
			"--operations-listen="+address(port),
			"--tls-cert-file="+d.file("tls.crt"),
			"--tls-key-file="+d.file("tls.key"),
		)
		if err != nil {
			return err
		}
	}
	for i, port := range d.ports.Operations {
		if err := d.await(ctx, "waiting for "+tokenServer(i), func(ctx context.Context) error { return ready(ctx, port) }); err != nil {
			return err
		}
	}
	return nil
}

// writeServingCertificate writes what the operator keeps in a Secret, which the token
// servers' Pods would mount.
func (d *demo) writeServingCertificate(ctx context.Context) error {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: systemNamespace, Name: servingcert.ServingSecret}
	if err := d.cluster.Get(ctx, key, secret); err != nil {
		return err
	}
	for file, key := range map[string]string{"tls.crt": corev1.TLSCertKey, "tls.key": corev1.TLSPrivateKeyKey} {
		if err := os.WriteFile(d.file(file), secret.Data[key], 0o600); err != nil {
			return err
		}
	}
	return nil
}

// ready asks a token server.
func ready(ctx context.Context, operationsPort int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address(operationsPort)+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", response.Status)
	}
	return nil
}

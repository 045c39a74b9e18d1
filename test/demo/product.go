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

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

const instanceConfiguration = `# The instance that make demo runs. docs/configuration-reference.md describes all keys.
apiVersion: config.realmkeeper.dev/v1beta1
kind: InstanceConfiguration
instanceDomain: realmkeeper.localhost # names below localhost resolve to this machine (RFC 6761)
externalPort: %d
security:
  defaultTokenLifetime: 1h
tokenServer:
  # This image does not exist. The Pods of the Deployment stay Pending, because there are no nodes.
  image: realmkeeper:demo
`

// startOperator starts the operator if it isn't running and waits until it has created
// everything that the token servers need.
func (d *demo) startOperator(ctx context.Context) error {
	if d.isRunning(operator) {
		return nil
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
		"--records-namespace="+recordsNamespace,
		"--kubeconfig="+kubeconfig,
		// There is only one operator. With leader election, it would wait until the Lease
		// of a killed one expires.
		"--leader-elect=false",
		"--health-probe-bind-address=0",
		"--metrics-bind-address=0",
	)
	if err != nil {
		return err
	}
	// The operator creates the Deployment last, after the certificate.
	key := client.ObjectKey{Namespace: systemNamespace, Name: config.TokenServiceName}
	return d.await(ctx, "wait for the operator", func(ctx context.Context) error {
		return d.cluster.Get(ctx, key, &appsv1.Deployment{})
	})
}

// startTokenServers starts the token servers that aren't running and waits until they serve.
//
// In a cluster, a Service distributes connections across the Pods of the token servers.
// Here the kernel does it: both token servers listen on the same port with SO_REUSEPORT,
// and each new connection goes to one that is listening.
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
			"--namespace="+recordsNamespace,
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
		if err := d.await(ctx, "wait for "+tokenServer(i), func(ctx context.Context) error { return ready(ctx, port) }); err != nil {
			return err
		}
	}
	return nil
}

// writeServingCertificate writes the certificate and key from the Secret that the Pods of
// the token servers would mount.
func (d *demo) writeServingCertificate(ctx context.Context) error {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: systemNamespace, Name: pki.ServingSecretName}
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

// ready checks /readyz of a token server or of the portal.
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
		return fmt.Errorf("/readyz returns %s", response.Status)
	}
	return nil
}

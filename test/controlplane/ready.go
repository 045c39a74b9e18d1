package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

func (c *ControlPlane) etcdReady(ctx context.Context) error {
	return succeeds(ctx, http.DefaultClient, "http://"+c.ports.etcdClient.Address()+"/readyz")
}

// apiServerReady also requests the default namespace, because the API server creates it
// shortly after /readyz succeeds.
func (c *ControlPlane) apiServerReady(ctx context.Context) error {
	return c.serves(ctx, "/readyz", "/api/v1/namespaces/default")
}

// managerReady checks the first result of the controllers. The controller manager serves no
// health endpoint, which would require another port.
func (c *ControlPlane) managerReady(ctx context.Context) error {
	return c.serves(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
}

func (c *ControlPlane) serves(ctx context.Context, paths ...string) error {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := succeeds(ctx, client, c.config.Host+path); err != nil {
			return err
		}
	}
	return nil
}

func succeeds(ctx context.Context, client *http.Client, url string) error {
	// A component may accept a connection before it can respond.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return nil
}

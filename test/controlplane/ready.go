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

// apiServerReady also asks for the namespace that everyone takes for granted and the
// API server makes a moment after it calls itself ready.
func (c *ControlPlane) apiServerReady(ctx context.Context) error {
	return c.serves(ctx, "/readyz", "/api/v1/namespaces/default")
}

// managerReady takes the first work of the controllers for their readiness: they serve
// no health endpoint, since that would need a port more.
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
	// A component may accept a connection before it can answer.
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

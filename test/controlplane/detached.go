package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// detachedFile in Options.Dir tells later processes how a detached control plane was
// started.
const detachedFile = "detached.json"

type detached struct {
	Options    Options
	EtcdClient int // ports
	APIServer  int
}

// StopDetached ends every process that is on record in the directory of a detached
// control plane, the youngest first, also those that others put there with
// process.Start. It is no error that nothing runs or that dir doesn't exist.
func StopDetached(dir string) error { return process.StopRecorded(dir, grace) }

// StopDetachedAPIServer ends the API server of a detached control plane alone, as
// StopAPIServer does.
func StopDetachedAPIServer(dir string) error {
	return process.StopNamed(dir, apiServerName, 0)
}

// StartDetachedAPIServer starts it again, at the same address with the same data, and
// returns when it is ready. It does nothing while it runs.
func StartDetachedAPIServer(ctx context.Context, dir string) error {
	if process.Running(dir, apiServerName) {
		return nil
	}
	c, err := reopen(dir)
	if err != nil {
		return fmt.Errorf("start the API server in %s: %w", dir, err)
	}
	return c.StartAPIServer(ctx)
}

// remember writes what reopen reads.
func (c *ControlPlane) remember() error {
	content, err := json.Marshal(detached{
		Options:    c.options,
		EtcdClient: c.ports.etcdClient.Number(),
		APIServer:  c.ports.apiServer.Number(),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(c.file(detachedFile), content, 0o600)
}

// reopen returns the detached control plane in dir as far as its API server needs it.
func reopen(dir string) (*ControlPlane, error) {
	content, err := os.ReadFile(filepath.Join(dir, detachedFile))
	if err != nil {
		return nil, err
	}
	var d detached
	if err := json.Unmarshal(content, &d); err != nil {
		return nil, err
	}
	c := &ControlPlane{options: d.Options, ports: ports{
		etcdClient: &Port{number: d.EtcdClient}, apiServer: &Port{number: d.APIServer}, // etcd has the locks
	}}
	if !process.Running(dir, etcdName) {
		return nil, errors.New("its etcd doesn't run")
	}
	c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	return c, err
}

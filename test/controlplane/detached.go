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

// detachedFile in Options.Dir records how a detached control plane was started, for later
// processes.
const detachedFile = "detached.json"

type detached struct {
	Options    Options
	EtcdClient int // ports
	APIServer  int
}

// StopDetached stops all processes that are recorded in the directory of a detached control plane,
// newest first, including those that other programs started there with process.Start. It returns no
// error if nothing is running or dir doesn't exist.
func StopDetached(dir string) error { return process.StopRecorded(dir, grace) }

// StopDetachedAPIServer stops only the API server of a detached control plane, like
// StopAPIServer.
func StopDetachedAPIServer(dir string) error {
	return process.StopNamed(dir, apiServerName, 0)
}

// StartDetachedAPIServer restarts the API server of a detached control plane, with the same
// address and data, and returns when it is ready. It also restarts the controller manager, which
// otherwise waits for up to a minute before it watches objects again. It does nothing if the API
// server is running.
func StartDetachedAPIServer(ctx context.Context, dir string) error {
	if process.Running(dir, apiServerName) {
		return nil
	}
	c, err := reopen(dir)
	if err != nil {
		return fmt.Errorf("start the API server in %s: %w", dir, err)
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if !c.options.ControllerManager {
		return nil
	}
	if err := process.StopNamed(dir, managerName, grace); err != nil {
		return err
	}
	return c.start(ctx, &c.manager, c.managerCommand(), c.managerReady)
}

// remember writes the file that reopen reads.
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

// reopen returns the detached control plane in dir with the fields that StartAPIServer needs.
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
		etcdClient: &Port{number: d.EtcdClient}, apiServer: &Port{number: d.APIServer}, // etcd holds the locks
	}}
	if !process.Running(dir, etcdName) {
		return nil, errors.New("etcd is not running")
	}
	c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	return c, err
}

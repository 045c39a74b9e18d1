package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Programs that save and restore snapshots of etcd. BinDir builds them if they are named.
const (
	SaveTool    = "etcdctl"
	RestoreTool = "etcdutl"
)

// SaveSnapshot writes a snapshot of etcd to a file that must not exist. BinDir must contain SaveTool.
func (c *ControlPlane) SaveSnapshot(ctx context.Context, path string) error {
	return c.run(ctx, SaveTool, "--endpoints=http://"+c.ports.etcdClient.Address(), "snapshot", "save", path)
}

// restoreSnapshot creates the data directory of etcd from Options.Snapshot.
func (c *ControlPlane) restoreSnapshot(ctx context.Context) error {
	peer := "http://" + c.ports.etcdPeer.Address()
	return c.run(ctx, RestoreTool, "snapshot", "restore", c.options.Snapshot, "--data-dir="+c.file(dataDir),
		"--name=default", "--initial-cluster=default="+peer, "--initial-advertise-peer-urls="+peer)
}

func (c *ControlPlane) run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(c.options.BinDir, name), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w: %s", name, err, out)
	}
	return nil
}

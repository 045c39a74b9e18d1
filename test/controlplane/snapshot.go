package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// RollBack replaces the data of etcd with that of an earlier snapshot, and starts the API server again, with the
// same address. bumpRevision is added to the revision of etcd, which otherwise repeats revisions. BinDir must
// contain RestoreTool.
func (c *ControlPlane) RollBack(ctx context.Context, snapshot string, bumpRevision int) error {
	c.mu.Lock()
	err := errors.Join(stop(&c.apiServer), stop(&c.etcd), os.RemoveAll(c.file(dataDir)))
	c.mu.Unlock()
	if err != nil {
		return err
	}
	var bump []string
	if bumpRevision != 0 {
		bump = []string{"--bump-revision=" + strconv.Itoa(bumpRevision), "--mark-compacted"}
	}
	if err := c.restoreSnapshot(ctx, snapshot, bump...); err != nil {
		return err
	}
	if err := c.start(ctx, &c.etcd, c.etcdCommand(), c.etcdReady); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// restoreSnapshot creates the data directory of etcd from a snapshot.
func (c *ControlPlane) restoreSnapshot(ctx context.Context, snapshot string, options ...string) error {
	peer := "http://" + c.ports.etcdPeer.Address()
	return c.run(ctx, RestoreTool, append([]string{
		"snapshot", "restore", snapshot, "--data-dir=" + c.file(dataDir),
		"--name=default", "--initial-cluster=default=" + peer, "--initial-advertise-peer-urls=" + peer,
	}, options...)...)
}

func (c *ControlPlane) run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(c.options.BinDir, name), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w: %s", name, err, out)
	}
	return nil
}

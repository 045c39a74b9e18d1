package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/realmkeeper/realmkeeper/test/cluster/cgroup"
)

// down removes the cluster in the directory, regardless of its state.
func (c *cluster) down(ctx context.Context) error {
	if err := requireRoot(); err != nil {
		return err
	}
	if _, err := os.Stat(c.dir); errors.Is(err, fs.ErrNotExist) {
		c.Say("No cluster found in %s.", c.dir)
		return nil
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := errors.Join(c.remove(ctx), os.Remove(c.dir)); err != nil {
		return err
	}
	c.Say("Removed the cluster. Installed packages and built binaries are kept.")
	return nil
}

// remove removes everything that a complete or partial up has created, except the directory,
// which is locked.
func (c *cluster) remove(ctx context.Context) error {
	if c.enclosure.Created() {
		if err := c.removeNode(ctx); err != nil {
			return err
		}
	}
	if err := allowServices(); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(c.file(entry.Name())); err != nil {
			return fmt.Errorf("remove the files of the cluster: %w", err)
		}
	}
	return nil
}

// removeNode stops the node and removes what remains outside the enclosure. It must be called
// only if there is an enclosure. Otherwise the network interface and the control groups belong
// to another cluster, in which case up has failed before it created the enclosure.
func (c *cluster) removeNode(ctx context.Context) error {
	if err := c.enclosure.Stop(); err != nil {
		return fmt.Errorf("stop the node: %w", err)
	}
	if err := c.disconnect(ctx); err != nil {
		return fmt.Errorf("remove the link to the node: %w", err)
	}
	hierarchies, err := cgroup.Here()
	if err != nil {
		return err
	}
	groups, err := cgroup.Find(hierarchies, podsGroup)
	if err != nil {
		return err
	}
	for _, group := range groups {
		if err := cgroup.Thaw(group); err != nil { // in all hierarchies before any of them is removed
			return fmt.Errorf("thaw the Pods: %w", err)
		}
	}
	for _, group := range groups {
		if err := cgroup.Remove(group); err != nil {
			return err
		}
	}
	return nil
}

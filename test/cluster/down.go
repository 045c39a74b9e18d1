package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/realmkeeper/realmkeeper/test/cluster/cgroup"
)

// down removes the cluster in this directory, whatever state it is in.
func (c *cluster) down(ctx context.Context) error {
	if err := requireRoot(); err != nil {
		return err
	}
	if _, err := os.Stat(c.dir); errors.Is(err, fs.ErrNotExist) {
		c.Say("There is no cluster in %s.", c.dir)
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
	c.Say("The cluster is removed. Installed packages and built binaries stay.")
	return nil
}

// remove removes all that up has made, as far as it had come, but for the directory, on
// which the lock is.
func (c *cluster) remove(ctx context.Context) error {
	if c.enclosure.Made() {
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
			return fmt.Errorf("removing what the cluster has written: %w", err)
		}
	}
	return nil
}

// removeNode ends the node and removes what outlives it. Before there was an enclosure
// these things were others', and up would not have gone on.
func (c *cluster) removeNode(ctx context.Context) error {
	if err := c.enclosure.Stop(); err != nil {
		return fmt.Errorf("stopping the node: %w", err)
	}
	if err := c.disconnect(ctx); err != nil {
		return fmt.Errorf("removing the link to the node: %w", err)
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
		if err := cgroup.Remove(group); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// down removes the cluster of this checkout, whatever state it is in.
func (c *cluster) down() error {
	if err := requireRoot(); err != nil {
		return err
	}
	if _, err := os.Stat(c.dir); errors.Is(err, fs.ErrNotExist) {
		c.Say("There is no cluster of this checkout.")
		return nil
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.remove(); err != nil {
		return err
	}
	c.Say("The cluster is removed. Installed packages and built binaries stay.")
	return nil
}

// remove removes all that up has made. Each part may be there or not.
func (c *cluster) remove() error {
	if err := c.enclosure.Stop(); err != nil {
		return fmt.Errorf("stopping the node: %w", err)
	}
	// With the enclosure went its network, and so the interface here; but when exactly
	// is the kernel's affair.
	if err := c.disconnect(context.Background()); err != nil {
		return fmt.Errorf("removing the link to the node: %w", err)
	}
	if err := removeCgroups(); err != nil {
		return fmt.Errorf("removing the control groups of pods: %w", err)
	}
	if err := allowServices(); err != nil {
		return err
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("removing what the cluster had written: %w", err)
	}
	return nil
}

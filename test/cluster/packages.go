package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/realmkeeper/realmkeeper/test/cluster/node"
)

// needed lists the Debian packages that contain the programs that the node uses.
var needed = []struct {
	debian    string
	installed func() bool
}{
	{"containerd", programs("containerd", "ctr")},
	{"runc", programs("runc")},
	{"containernetworking-plugins", func() bool { return node.PluginDir() != "" }},
	{"iptables", programs("iptables", "iptables-restore", "iptables-save")},
	{"iproute2", programs("ip")},
	{"util-linux", programs("nsenter", "mount")},
}

func programs(names ...string) func() bool {
	return func() bool {
		for _, name := range names {
			if _, err := exec.LookPath(name); err != nil {
				return false
			}
		}
		return true
	}
}

func missingPackages() []string {
	var packages []string
	for _, need := range needed {
		if !need.installed() {
			packages = append(packages, need.debian)
		}
	}
	return packages
}

// installPackages installs missing packages without starting their services.
func (c *cluster) installPackages(ctx context.Context) error {
	packages := missingPackages()
	if len(packages) == 0 {
		return nil
	}
	list := strings.Join(packages, " ")
	if !programs("apt-get")() {
		return fmt.Errorf("missing programs of these Debian packages: %s; install them first", list)
	}
	c.Step("Installing Debian packages, about 30 s: %s ...", list)
	if err := denyServices(); err != nil {
		return err
	}
	for _, args := range []string{"update", "install --yes --no-install-recommends " + list} {
		err := c.command(ctx, "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get"}, strings.Fields(args)...)...)
		if err != nil {
			return errors.Join(err, allowServices())
		}
	}
	if err := allowServices(); err != nil {
		return err
	}
	if still := missingPackages(); len(still) > 0 {
		return fmt.Errorf("installed packages do not contain the required programs: %s", strings.Join(still, " "))
	}
	return nil
}

// policyFile controls whether Debian packages may start services; see invoke-rc.d(8).
const policyFile = "/usr/sbin/policy-rc.d"

const policy = `#!/bin/sh
# Written by Realmkeeper's test/cluster to prevent the start of containerd during installation.
exit 101
`

// denyServices prevents packages from starting services during installation, unless this
// machine already has a policy.
func denyServices() error {
	file, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // It is an executable.
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := file.WriteString(policy); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}

// allowServices removes the policy if it was written by denyServices.
func allowServices() error {
	content, err := os.ReadFile(policyFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(content) != policy {
		return nil
	} else if err != nil {
		return err
	}
	return os.Remove(policyFile)
}

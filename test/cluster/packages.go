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

// needed are the programs that the node takes from this machine, by Debian's package.
var needed = []struct {
	debian string
	there  func() bool
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
		if !need.there() {
			packages = append(packages, need.debian)
		}
	}
	return packages
}

// installPackages installs what is missing, and starts none of it.
func (c *cluster) installPackages(ctx context.Context) error {
	packages := missingPackages()
	if len(packages) == 0 {
		return nil
	}
	list := strings.Join(packages, " ")
	if !programs("apt-get")() {
		return fmt.Errorf("programs of these packages are missing, by their names in Debian: %s; install them first", list)
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
		return fmt.Errorf("installed, but without the programs that are needed: %s", strings.Join(still, " "))
	}
	return nil
}

// policyFile tells Debian's packages whether they may start services. Its documentation
// is that of invoke-rc.d.
const policyFile = "/usr/sbin/policy-rc.d"

const policy = `#!/bin/sh
# Written by Realmkeeper's test/cluster while it installs containerd, which would start.
exit 101
`

// denyServices keeps packages that are being installed from starting services, unless
// this machine has a policy already.
func denyServices() error {
	file, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // It is a program.
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

// allowServices removes the policy, if it is the one that denyServices wrote.
func allowServices() error {
	content, err := os.ReadFile(policyFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(content) != policy {
		return nil
	} else if err != nil {
		return err
	}
	return os.Remove(policyFile)
}

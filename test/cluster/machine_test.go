//go:build e2e

package main_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// machine returns the state of this machine that a node could change, by kind. It doesn't change
// on an idle machine on which the packages of the node are installed.
func machine(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{
		"links":     output(t, "ip", "-oneline", "link"),
		"addresses": output(t, "ip", "-brief", "address"),
		"routes":    output(t, "ip", "route", "show", "table", "all"),
	}
	counters := regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\]`)
	state["iptables"] = counters.ReplaceAllString(output(t, "iptables-save"), "")
	for kind, pattern := range map[string]string{
		"control groups":   "/sys/fs/cgroup/*/kubepods*",
		"control groups 2": "/sys/fs/cgroup/kubepods*",
		"run":              "/run/*",
		"var":              "/var/l*/*",
		"opt":              "/opt/*",
		"etc":              "/etc/cni/*/*",
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		state[kind] = strings.Join(paths, "\n")
	}
	for _, setting := range []string{
		"net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/ipv4/conf/all/rp_filter", "net/ipv6/conf/all/forwarding",
		"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "vm/overcommit_memory", "vm/panic_on_oom",
	} {
		state[setting] = read(t, "/proc/sys/"+setting)
	}
	state["mounts"] = read(t, "/proc/self/mountinfo")
	state["namespaces"] = strings.Join(namespaces(t), "\n")
	return state
}

// namespaces returns the mount namespaces of all processes. All processes of a node are in a
// different namespace than this test, but few other processes are.
func namespaces(t *testing.T) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, link := range links {
		if namespace, err := os.Readlink(link); err == nil { // otherwise the process has exited
			found[namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

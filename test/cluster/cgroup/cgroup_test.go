package cgroup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/test/cluster/cgroup"
)

func TestHierarchies(t *testing.T) {
	tests := map[string]struct {
		mountinfo string
		want      []string
	}{
		"version 1": {
			mountinfo: `27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs none rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup none rw,cpu,cpuacct
36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup none rw,memory
`,
			want: []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory"},
		},
		"version 2": {
			mountinfo: "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 none rw,nsdelegate\n",
			want:      []string{"/sys/fs/cgroup"},
		},
		"device named cgroup": {mountinfo: "35 24 0:30 / /cgroup rw - ext4 cgroup rw\n"},
		"invalid lines":       {mountinfo: "\ncgroup\n - cgroup\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cgroup.Hierarchies(strings.NewReader(test.mountinfo))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFindAndRemove uses ordinary directories without files, because files in a control group
// don't prevent its removal.
func TestFindAndRemove(t *testing.T) {
	cpu, memory := t.TempDir(), t.TempDir()
	for _, dir := range []string{"kubepods/burstable/pod1", "kubepods/besteffort", "others/kubepods"} {
		must(t, os.MkdirAll(filepath.Join(cpu, dir), 0o700))
	}
	pods := filepath.Join(cpu, "kubepods")

	found, err := cgroup.Find([]string{cpu, memory}, "kubepods")
	must(t, err)
	if diff := cmp.Diff([]string{pods}, found); diff != "" {
		t.Error(diff)
	}
	must(t, cgroup.Remove(pods))
	must(t, cgroup.Remove(pods)) // doesn't exist
	left, err := cgroup.Find([]string{cpu, memory}, "kubepods")
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(cpu, "others", "kubepods")); err != nil {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

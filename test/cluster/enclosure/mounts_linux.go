package enclosure

import (
	"os"
	"path/filepath"
	"syscall"
)

// mountAll mounts all file systems. The mounts are private to the enclosure, and the kernel
// removes them with it.
func mountAll(dir, binDir string) error {
	stage := filepath.Join(dir, stageDir)
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE); err != nil {
		return err
	}
	// Fill the new /run before it covers the old one, because dir may be below the old one.
	if err := mount("tmpfs", stage, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV); err != nil {
		return err
	}
	for source, target := range map[string]string{dir: Dir, binDir: Bin} {
		target = filepath.Join(stage, filepath.Base(target))
		if err := os.Mkdir(target, 0o700); err != nil {
			return err
		}
		if err := mount(source, target, "", syscall.MS_BIND); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{stage, "/run", "", syscall.MS_MOVE},
		{filepath.Join(Dir, libDir), "/var/lib", "", syscall.MS_BIND},
		{filepath.Join(Dir, logDir), "/var/log", "", syscall.MS_BIND},
		// /proc of the new PID namespace.
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
		// The kubelet shares mounts with containers, but only in the enclosure.
		{"", "/", "", syscall.MS_REC | syscall.MS_SHARED},
	} {
		if err := mount(m.source, m.target, m.kind, m.flags); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr) error {
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		return &os.PathError{Op: "mount", Path: target, Err: err}
	}
	return nil
}

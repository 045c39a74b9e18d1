package filelock_test

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/realmkeeper/realmkeeper/test/controlplane/filelock"
)

func TestLockIsExclusive(t *testing.T) {
	for name, path := range map[string]string{
		"file":      filepath.Join(t.TempDir(), "lock"),
		"directory": t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			first, err := filelock.Try(path)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = filelock.Try(path)
			g.Expect(err).To(MatchError(filelock.ErrLocked))

			released := make(chan error)
			go func() {
				second, err := filelock.Wait(path)
				second.Release()
				released <- err
			}()
			g.Consistently(released, "50ms").ShouldNot(Receive())
			first.Release()
			g.Eventually(released).Should(Receive(BeNil()))
		})
	}
}

func TestUnreachableLockIsHeld(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "lock")
	_, err := filelock.Try(path)
	g.Expect(err).NotTo(HaveOccurred())
	for range 3 { // The garbage collector closes a file once it is unreachable.
		runtime.GC()
	}
	_, err = filelock.Try(path)
	g.Expect(err).To(MatchError(filelock.ErrLocked))
}

func TestErrorContainsPath(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "missing", "lock")
	_, err := filelock.Try(path)
	g.Expect(err).To(MatchError(fs.ErrNotExist))
	g.Expect(err).To(MatchError(ContainSubstring(path)))
}

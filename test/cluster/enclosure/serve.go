package enclosure

import (
	"errors"
	"fmt"
	"os"

	"github.com/realmkeeper/realmkeeper/test/cluster/reap"
)

// Through one pipe, the first process learns that it has been recorded. Through the other pipe, it
// reports that it has mounted everything.
const (
	recordedFD = 3 + iota
	mountedFD
)

const done = "done"

var (
	errNotFirst  = errors.New("not the first process of its namespaces")
	errAbandoned = errors.New("the starting program exited before it recorded this process")
)

// Serve runs as the first process of an enclosure. It returns when the enclosure is stopped or
// after an error.
func Serve(dir, binDir string) error {
	if os.Getpid() != 1 {
		return errNotFirst // it would change the mounts of this machine
	}
	recorded, mounted := os.NewFile(recordedFD, "recorded"), os.NewFile(mountedFD, "mounted")
	// Without a record, no program could stop this process.
	if n, _ := recorded.Read(make([]byte, len(done))); n < len(done) {
		return errAbandoned
	}
	if err := mountAll(dir, binDir); err != nil {
		return fmt.Errorf("mount the file systems of the enclosure: %w", err)
	}
	if _, err := mounted.WriteString(done); err != nil {
		return err
	}
	if err := mounted.Close(); err != nil {
		return err
	}
	reap.UntilTerminated()
	return nil
}

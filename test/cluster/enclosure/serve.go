package enclosure

import (
	"errors"
	"fmt"
	"os"

	"github.com/realmkeeper/realmkeeper/test/cluster/reap"
)

// The first process is told by one pipe that it is on record, and tells by another that
// its mounts are made.
const (
	recordedFD = 3 + iota
	arrangedFD
)

const done = "done"

var (
	errNotFirst  = errors.New("it is not the first process of its namespaces")
	errAbandoned = errors.New("the program that started it has ended before it was on record")
)

// Serve is the first process of an enclosure. It returns when that is stopped, or after
// an error.
func Serve(dir, binDir string) error {
	if os.Getpid() != 1 {
		return errNotFirst // and the mounts would be this machine's
	}
	recorded, arranged := os.NewFile(recordedFD, "recorded"), os.NewFile(arrangedFD, "arranged")
	// Without a record nobody could ever stop it.
	if n, _ := recorded.Read(make([]byte, len(done))); n < len(done) {
		return errAbandoned
	}
	if err := arrange(dir, binDir); err != nil {
		return fmt.Errorf("make the mounts of the enclosure: %w", err)
	}
	if _, err := arranged.WriteString(done); err != nil {
		return err
	}
	if err := arranged.Close(); err != nil {
		return err
	}
	reap.UntilTerminated()
	return nil
}

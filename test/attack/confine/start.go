package confine

import (
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// Start starts the command in the group and on the core for servers. Its output is appended to
// <Dir>/<Name>.log by this process, through a pipe as in a container. If the program wrote the file
// itself, the file's pages in the cache would count as its memory. So would the pages of its
// executable unless they are in the cache before, but the kernel drops such pages when memory is short.
func (g *Group) Start(c process.Command) (*process.Process, error) {
	if err := readAll(c.Path); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(c.Dir, c.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		log.Close()
		return nil, err
	}
	defer writer.Close()
	go func() {
		defer log.Close()
		defer reader.Close()
		_, _ = io.Copy(log, reader) // ends when the program exits
	}()
	// The shell becomes the program, so that the process ID stays the same.
	script := `exec "$@" >&3 2>&1 3>&-`
	if g.Confined() {
		script = `echo $$ >` + filepath.Join(g.dir, "cgroup.procs") + ` && ` + script
	} else {
		// As in a container with this limit, the Go runtime gets nine tenths of it.
		c.Env = append(c.Env, "GOMEMLIMIT="+strconv.FormatInt(g.Limit/10*9, 10))
	}
	// As in a container that is limited to one core, the Go runtime uses two threads, so that the kernel
	// divides the core between a slow hash and other requests.
	c.Env = append(c.Env, "GOMAXPROCS=2")
	c.Args = append(append([]string{"-c", script, c.Name}, pinned(serverCore)...), append([]string{c.Path}, c.Args...)...)
	c.Path = "/bin/sh"
	c.Inherit = []*os.File{writer}
	return process.Start(c)
}

// readAll reads a file into the cache, as part of this process's memory.
func readAll(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(io.Discard, file)
	return err
}

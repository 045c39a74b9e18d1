package enclosure_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/realmkeeper/realmkeeper/test/cluster/enclosure"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// serve is the argument that makes the test binary the first process of an enclosure.
const serve = "serve-enclosure"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 4 && os.Args[1] == serve:
		if err := enclosure.Serve(os.Args[2], os.Args[3]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	default:
		os.Exit(m.Run())
	}
}

func start(t *testing.T) enclosure.Enclosure {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e := enclosure.Enclosure{Dir: dir}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	err = e.Start(t.Context(), enclosure.Options{
		Program: []string{self, serve}, BinDir: filepath.Dir(self), Lock: os.Stdin,
	})
	if errors.Is(err, syscall.EPERM) {
		t.Skip("namespaces require root: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return e
}

// shell runs a script in the enclosure and returns its output.
func shell(t *testing.T, e enclosure.Enclosure, script string) string {
	t.Helper()
	command, err := e.Command(t.Context(), "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestIsolation(t *testing.T) {
	g := NewWithT(t)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	g.Expect(err).NotTo(HaveOccurred())
	e := start(t)
	g.Expect(e.Running()).To(BeTrue())

	g.Expect(shell(t, e, "ls /run")).To(Equal("realmkeeper\nrealmkeeper-bin"))
	g.Expect(shell(t, e, "ls /var/lib /var/log")).To(Equal("/var/lib:\n\n/var/log:"))
	g.Expect(shell(t, e, "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '")).To(Equal("lo"))
	g.Expect(shell(t, e, "readlink /proc/1/exe")).To(HaveSuffix(".test"))
	g.Expect(shell(t, e, "env -u PWD -u SHLVL -u _ | cut -d= -f1 | sort")).To(Equal("HOME\nPATH"))

	shell(t, e, "echo written > /var/lib/file")
	g.Expect(os.ReadFile(filepath.Join(e.Dir, "lib", "file"))).To(Equal([]byte("written\n")))
	g.Expect(shell(t, e, "cat "+enclosure.Dir+"/lib/file")).To(Equal("written"))
	g.Expect(os.ReadFile("/proc/self/mountinfo")).To(Equal(mounts), "mounts of this machine")
}

func TestFirstProcessReapsOrphans(t *testing.T) {
	g := NewWithT(t)
	e := start(t)
	// A child of a shell that has exited becomes a child of the first process.
	pid := shell(t, e, "sleep 0.1 >/dev/null 2>&1 & echo $!")
	g.Eventually(func() string {
		return shell(t, e, "cat /proc/"+pid+"/stat 2>/dev/null || echo reaped")
	}).Should(Equal("reaped"))
}

func TestStopKillsAllProcesses(t *testing.T) {
	g := NewWithT(t)
	e := start(t)
	first, err := e.PID()
	g.Expect(err).NotTo(HaveOccurred())
	// These processes are in separate sessions and ignore signals.
	shell(t, e, `for i in 1 2 3; do setsid sh -c 'trap "" TERM HUP; echo > /run/realmkeeper/$$; while :; do sleep 1; done' >/dev/null 2>&1 & done`)
	g.Eventually(func() ([]string, error) { return filepath.Glob(filepath.Join(e.Dir, "[0-9]*")) }).Should(HaveLen(3))
	inside := namespace(t, first)
	g.Expect(len(processesIn(t, inside))).To(BeNumerically(">", 3))

	g.Expect(e.Stop()).To(Succeed())
	// The kernel kills them. On a busy machine, that takes a moment.
	g.Eventually(func() []int { return processesIn(t, inside) }).WithTimeout(time.Minute).Should(BeEmpty())
	g.Expect(e.Running()).To(BeFalse())
	_, err = e.PID()
	g.Expect(err).To(MatchError(os.ErrNotExist))
	_, err = e.Command(context.Background(), "true")
	g.Expect(err).To(HaveOccurred())
	g.Expect(e.Stop()).To(Succeed())
}

func TestStartReturnsErrorOfFirstProcess(t *testing.T) {
	g := NewWithT(t)
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	start(t) // skips the test if namespaces aren't allowed

	e := enclosure.Enclosure{Dir: t.TempDir()}
	err = e.Start(t.Context(), enclosure.Options{Program: []string{self, serve}, BinDir: "/missing", Lock: os.Stdin})
	g.Expect(err).To(MatchError(ContainSubstring("no such file")))
	g.Expect(e.Running()).To(BeFalse())
}

// If the starting program exits before it writes the record, no program can stop the enclosure.
func TestUnrecordedFirstProcessExits(t *testing.T) {
	g := NewWithT(t)
	start(t) // skips the test if namespaces aren't allowed
	recorded, starter, err := os.Pipe()
	g.Expect(err).NotTo(HaveOccurred())
	p, err := process.Start(process.Command{
		Name: "first", Path: os.Args[0], Args: []string{serve, t.TempDir(), t.TempDir()}, Dir: t.TempDir(),
		Isolate: true, Inherit: []*os.File{recorded, recorded},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Consistently(p.Done(), "100ms").ShouldNot(BeClosed())
	g.Expect(starter.Close()).To(Succeed())
	g.Eventually(p.Done()).Should(BeClosed())
	g.Expect(p.LogTail()).To(ContainSubstring("before it recorded this process"))
}

// In another process, Serve would change the mounts of this machine.
func TestServeRequiresFirstProcess(t *testing.T) {
	NewWithT(t).Expect(enclosure.Serve(t.TempDir(), t.TempDir())).To(MatchError(ContainSubstring("not the first process")))
}

func namespace(t *testing.T, pid int) string {
	t.Helper()
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func processesIn(t *testing.T, namespace string) []int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != namespace {
			continue // The process has exited or is in another namespace.
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

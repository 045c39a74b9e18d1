package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// starterEnv makes the test binary a program that starts an attached or detached process,
// prints its ID, and waits until it is killed.
const starterEnv = "REALMKEEPER_PROCESS_STARTER"

func TestMain(m *testing.M) {
	mode, dir, isStarter := strings.Cut(os.Getenv(starterEnv), " ")
	if !isStarter {
		os.Exit(m.Run())
	}
	p, err := process.Start(shell(dir, "exec sleep 600", mode == "detached"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	select {}
}

func shell(dir, script string, detach bool) process.Command {
	return process.Command{Name: "shell", Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir, Detach: detach}
}

func TestAttachedProcessIsKilledWithItsStarter(t *testing.T) {
	g := NewWithT(t)
	starter, pid := startStarter(t, "attached "+t.TempDir())
	g.Expect(alive(pid)).To(BeTrue())
	g.Expect(starter.Process.Kill()).To(Succeed())
	g.Eventually(func() bool { return alive(pid) }).Should(BeFalse())
}

func TestDetachedProcessRunsUntilStopped(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	starter, pid := startStarter(t, "detached "+dir)
	g.Expect(starter.Process.Kill()).To(Succeed())
	_ = starter.Wait() // It was killed.
	g.Expect(alive(pid)).To(BeTrue())
	g.Expect(process.Running(dir, "shell")).To(BeTrue())

	_, err := process.Start(shell(dir, "true", true))
	g.Expect(err).To(MatchError(ContainSubstring("already running")))

	g.Expect(process.StopRecorded(dir, 10*time.Second)).To(Succeed())
	g.Expect(alive(pid)).To(BeFalse())
	g.Expect(process.Running(dir, "shell")).To(BeFalse())
	g.Expect(filepath.Join(dir, "shell.pid")).NotTo(BeAnExistingFile())
}

func TestStopRecordedKillsAfterGrace(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	p, err := process.Start(shell(dir, `trap "" TERM; echo ready; while :; do sleep 1; done`, true))
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(p.LogTail).Should(Equal("ready"))
	g.Expect(process.StopRecorded(dir, 50*time.Millisecond)).To(Succeed())
	g.Eventually(p.Done()).Should(BeClosed())
}

func TestStopRecordedKeepsOtherProcesses(t *testing.T) {
	for name, start := range map[string]string{
		"same boot":  "", // set below
		"other boot": "00000000-0000-0000-0000-000000000000/1",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			other, err := process.Start(shell(dir, "exec sleep 600", true))
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { g.Expect(other.Kill()).To(Succeed()) })
			record := filepath.Join(dir, "shell.pid")
			if start == "" {
				content, err := os.ReadFile(record)
				g.Expect(err).NotTo(HaveOccurred())
				start = strings.Fields(string(content))[1] + "0" // another start time
			}
			g.Expect(os.WriteFile(record, fmt.Appendf(nil, "%d\n%s\n", other.PID(), start), 0o600)).To(Succeed())

			g.Expect(process.StopRecorded(dir, time.Second)).To(Succeed())
			g.Expect(alive(other.PID())).To(BeTrue())
			g.Expect(record).NotTo(BeAnExistingFile())
		})
	}
}

// A successor can be recorded before the starter notices that the process has exited.
func TestExitKeepsRecordOfSuccessor(t *testing.T) {
	g := NewWithT(t)
	dir, record := t.TempDir(), "shell.pid"
	p, err := process.Start(shell(dir, "exec sleep 600", true))
	g.Expect(err).NotTo(HaveOccurred())
	elsewhere := t.TempDir()
	successor, err := process.Start(shell(elsewhere, "exec sleep 600", true))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(successor.Kill()).To(Succeed()) })
	g.Expect(os.Rename(filepath.Join(elsewhere, record), filepath.Join(dir, record))).To(Succeed())

	g.Expect(p.Kill()).To(Succeed())
	g.Expect(process.Running(dir, "shell")).To(BeTrue())
	g.Expect(process.StopNamed(dir, "shell", time.Second)).To(Succeed())
	g.Eventually(successor.Done()).Should(BeClosed())
}

func TestStopNamedKeepsOtherProcesses(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	for _, name := range []string{"one", "other"} {
		p, err := process.Start(process.Command{Name: name, Path: "/bin/sleep", Args: []string{"600"}, Dir: dir, Detach: true})
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { g.Expect(p.Kill()).To(Succeed()) })
		g.Expect(process.RecordedPID(dir, name)).To(Equal(p.PID()))
	}
	g.Expect(process.StopNamed(dir, "one", time.Second)).To(Succeed())
	g.Expect(process.Running(dir, "one")).To(BeFalse())
	g.Expect(process.Running(dir, "other")).To(BeTrue())
	_, err := process.RecordedPID(dir, "one")
	g.Expect(err).To(MatchError(os.ErrNotExist))
	g.Expect(process.StopNamed(dir, "one", time.Second)).To(Succeed())
}

func TestAwait(t *testing.T) {
	g := NewWithT(t)
	missing := errors.New("no response yet")
	never := func(context.Context) error { return missing }
	ended, err := process.Start(shell(t.TempDir(), "echo port in use; exit 3", false))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ended.Await(t.Context(), never)).To(MatchError(ContainSubstring("port in use")))

	idle, err := process.Start(shell(t.TempDir(), "exec sleep 600", false))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(idle.Kill()).To(Succeed()) })
	tries := 0
	g.Expect(idle.Await(t.Context(), func(context.Context) error {
		if tries++; tries < 3 {
			return missing
		}
		return nil
	})).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(idle.Await(ctx, never)).To(And(MatchError(context.Canceled), MatchError(missing)))
}

func TestStopRecordedRejectsInvalidRecords(t *testing.T) {
	for name, content := range map[string]string{
		"empty":         "",
		"not a number":  "etcd\nboot/1\n",
		"init":          "1\nboot/1\n",
		"process group": "-5\nboot/1\n",
		"ID only":       "12345\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			g.Expect(os.WriteFile(filepath.Join(dir, "etcd.pid"), []byte(content), 0o600)).To(Succeed())
			g.Expect(process.StopRecorded(dir, time.Second)).To(MatchError(ContainSubstring("not a process record")))
		})
	}
}

func TestStopRecordedWithoutDirectory(t *testing.T) {
	NewWithT(t).Expect(process.StopRecorded(filepath.Join(t.TempDir(), "missing"), time.Second)).To(Succeed())
}

func TestStopAllowsGracefulExit(t *testing.T) {
	g := NewWithT(t)
	p, err := process.Start(shell(t.TempDir(), `trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.01; done`, false))
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(p.LogTail).Should(Equal("ready"))
	g.Expect(p.Exited()).To(Succeed())
	g.Expect(p.Stop(10 * time.Second)).To(Succeed())
	g.Expect(p.LogTail()).To(Equal("ready\nbye"))
	g.Expect(p.Exited()).To(Succeed())
}

func TestExitedReturnsLogTail(t *testing.T) {
	g := NewWithT(t)
	p, err := process.Start(shell(t.TempDir(), "seq 1 10000; echo port in use >&2; exit 3", false))
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(p.Done()).Should(BeClosed())
	g.Expect(p.Exited()).To(MatchError(And(ContainSubstring("exit status 3"), HaveSuffix("10000\nport in use"))))
	g.Expect(len(p.LogTail())).To(BeNumerically("<", 4<<10))
	g.Expect(p.Stop(time.Second)).To(MatchError(ContainSubstring("exit status 3")))
}

func TestStartNamesTheProcess(t *testing.T) {
	g := NewWithT(t)
	_, err := process.Start(process.Command{Name: "etcd", Path: "/nonexistent/etcd", Dir: t.TempDir()})
	g.Expect(err).To(MatchError(os.ErrNotExist))
	g.Expect(err).To(MatchError(HavePrefix("start etcd: ")))
}

// startStarter runs the test binary as a starter and returns the ID of the started process.
func startStarter(t *testing.T, mode string) (*exec.Cmd, int) {
	t.Helper()
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), starterEnv+"="+mode)
	stdout, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = starter.Process.Kill() // It has usually exited already.
		_ = starter.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("starter printed: %s", line)
	}
	return starter, pid
}

// alive reports whether the process is running. A zombie has exited.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}

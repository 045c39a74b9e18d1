package env_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// childEnv is the environment variable that makes TestChild start a control plane.
const childEnv = "REALMKEEPER_TESTENV_CHILD"

const dirPrefix = "control plane in "

func TestMain(m *testing.M) { env.Main(m, env.WithControllerManager(), env.WithCRDs()) }

// TestChild runs only in the child processes that other tests start. It prints the directory of its
// control plane and returns when its standard input is closed.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		return
	}
	env := env.Start(t)
	fmt.Println(dirPrefix + filepath.Dir(env.Kubeconfig))
	if _, err := bufio.NewReader(os.Stdin).ReadByte(); err == nil {
		t.Fatal("standard input is not empty")
	}
}

func TestKilledBinaryLeavesNothingBehind(t *testing.T) {
	g := NewWithT(t)
	child, dir, _ := startChild(t)
	g.Expect(runningIn(dir)).To(ConsistOf("etcd", "kube-apiserver", "kube-controller-manager"))

	g.Expect(child.Process.Kill()).To(Succeed())
	g.Eventually(func() []string { return runningIn(dir) }).WithTimeout(10 * time.Second).Should(BeEmpty())

	// The next control plane to start removes the killed binary's files.
	next, nextDir, end := startChild(t)
	g.Expect(dir).NotTo(BeADirectory())

	// A binary that exits normally removes its own files.
	end()
	g.Expect(next.Wait()).To(Succeed())
	g.Expect(nextDir).NotTo(BeADirectory())
}

// startChild runs this binary as a child process and waits until its control plane is running. It
// returns the control plane's directory and a function that ends the process.
func startChild(t *testing.T) (child *exec.Cmd, dir string, end func()) {
	t.Helper()
	child = exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"=1")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // it may have exited already
		_ = child.Wait()
	})
	var output bytes.Buffer
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if dir, found := strings.CutPrefix(lines.Text(), dirPrefix); found {
			return child, dir, func() { stdin.Close() }
		}
		output.WriteString(lines.Text() + "\n")
	}
	t.Fatalf("The child started no control plane:\n%s", output.String())
	return nil, "", nil
}

// runningIn returns the names of the running programs whose arguments contain dir.
func runningIn(dir string) []string {
	var names []string
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(command, []byte(dir)) {
			continue
		}
		program, _, _ := bytes.Cut(command, []byte{0})
		names = append(names, filepath.Base(string(program)))
	}
	return names
}

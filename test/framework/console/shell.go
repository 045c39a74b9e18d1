package console

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Shell is a bash that runs commands one after the other, as a reader types them: directories,
// variables and background jobs remain. The zero value isn't usable.
type Shell struct {
	// Rewrite changes a command before it runs if it isn't nil, such as to replace a host name.
	Rewrite func(command string) string
	// Replace changes what a command has printed if it isn't nil, before it is compared with the page.
	Replace func(printed string) string

	commands io.Writer
	statuses *bufio.Reader
	// outputs contains a file for each command.
	outputs string
	count   int
}

// commandTimeout limits each command. It is generous and not a performance goal.
const commandTimeout = 10 * time.Minute

// NewShell starts a bash in a directory. Its environment is that of the test and the given variables.
// At the end of the test, it and its background jobs are killed.
func NewShell(t testing.TB, directory string, environment ...string) *Shell {
	t.Helper()
	statuses, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc")
	shell.Dir, shell.Env = directory, append(os.Environ(), environment...)
	shell.ExtraFiles = []*os.File{write}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	commands, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	t.Cleanup(func() {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		_ = shell.Wait()
		statuses.Close()
	})
	return &Shell{commands: commands, statuses: bufio.NewReader(statuses), outputs: t.TempDir()}
}

// Run runs the commands of the blocks in order. The test fails if a command prints something else
// than the page shows below it, or if it fails and the page shows no output. A command that ends with
// & must print what the page shows, but doesn't have to end.
func (s *Shell) Run(t testing.TB, blocks ...Block) {
	t.Helper()
	for _, block := range blocks {
		for _, command := range block.Commands {
			s.run(t, fmt.Sprintf("%s:%d: $ %s", block.Page, command.Line, command.Text), command)
		}
	}
}

func (s *Shell) run(t testing.TB, name string, command Command) {
	t.Helper()
	started := time.Now()
	text := command.Text
	if s.Rewrite != nil {
		text = s.Rewrite(text)
	}
	output, status := s.execute(t, name, text)
	background := strings.HasSuffix(text, "&")
	for background && command.Output != "" && !matches(command.Output, s.printed(t, output)) {
		if time.Since(started) > commandTimeout {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	printed := s.printed(t, output)
	t.Logf("%s\n%s(status %s, %v)", name, printed, status, time.Since(started).Round(time.Millisecond))
	switch {
	case command.Output == "":
		if status != "0" {
			t.Fatalf("%s fails with status %s:\n%s", name, status, printed)
		}
	case !matches(command.Output, printed):
		t.Fatalf("%s: status %s (-page +printed):\n%s", name, status, cmp.Diff(normalize(command.Output), normalize(printed)))
	}
}

// execute runs a command and returns the file with its output, and its exit status.
func (s *Shell) execute(t testing.TB, name, text string) (output, status string) {
	t.Helper()
	s.count++
	script := filepath.Join(s.outputs, fmt.Sprintf("%d.sh", s.count))
	output = filepath.Join(s.outputs, fmt.Sprintf("%d.txt", s.count))
	if err := os.WriteFile(script, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Commands get neither the input of the shell nor the pipe for statuses.
	_, err := fmt.Fprintf(s.commands, "eval \"$(<%q)\" </dev/null >%q 2>&1 3>&-; echo $? >&3\n", script, output)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, err = s.statuses.ReadString('\n')
	}()
	select {
	case <-done:
		if err != nil {
			t.Fatalf("%s: the shell ended: %v\n%s", name, err, s.printed(t, output))
		}
	case <-time.After(commandTimeout):
		t.Fatalf("%s runs longer than %v:\n%s", name, commandTimeout, s.printed(t, output))
	}
	return output, strings.TrimSpace(status)
}

// printed returns what a command has printed so far.
func (s *Shell) printed(t testing.TB, output string) string {
	t.Helper()
	content, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	printed := string(content)
	if s.Replace != nil {
		printed = s.Replace(printed)
	}
	return printed
}

package report

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// bundle is a support bundle: a zip file. It remembers the first error of a write, which finish returns.
type bundle struct {
	zip      *zip.Writer
	now      time.Time
	contents []string // descriptions of the files
	missing  []missingPart
	parts    int // number of parts of the cluster that were read
	err      error
}

// missingPart is a part of the cluster that could not be read.
type missingPart struct {
	what       string
	permission string // that the user lacks; empty if there was another error
	err        error
}

func (m missingPart) String() string {
	if m.permission != "" {
		return m.what + ": you have no permission to " + m.permission
	}
	return fmt.Sprintf("%s: %v", m.what, m.err)
}

// create starts a file. It is complete when the next one is created. What is written must contain no secrets.
func (b *bundle) create(name string) io.Writer {
	var file io.Writer
	if b.err == nil {
		file, b.err = b.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: b.now})
	}
	return untrusted.NewWriter(&bundleFile{b, file})
}

// bundleFile is a file in a bundle.
type bundleFile struct {
	bundle *bundle
	file   io.Writer
}

func (f *bundleFile) Write(p []byte) (int, error) {
	if f.bundle.err == nil {
		_, f.bundle.err = f.file.Write(p)
	}
	return len(p), nil
}

// describe adds a line about a file to README.txt.
func (b *bundle) describe(name, description string) {
	b.contents = append(b.contents, name+": "+description)
}

// text writes a file. It must contain no secrets.
func (b *bundle) text(name, description string, content []byte) {
	b.describe(name, description)
	_, _ = b.create(name).Write(content) // finish returns the error
}

// document writes a value to a file of YAML documents. It must contain no secrets.
func (b *bundle) document(file io.Writer, value any) {
	encoded, err := untrusted.MarshalYAML(value)
	if err != nil && b.err == nil {
		b.err = err
	}
	_, _ = file.Write(append([]byte("---\n"), encoded...)) // finish returns the error
}

// miss records that a part could not be read. permission is needed to read it.
func (b *bundle) miss(what, permission string, err error) {
	m := missingPart{what: what, err: err}
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		m.permission = permission
	}
	if !slices.ContainsFunc(b.missing, func(other missingPart) bool { return other.String() == m.String() }) {
		b.missing = append(b.missing, m)
	}
}

const bundleReadme = `Support bundle of Realmkeeper
Created %s with version %s of the plugin

READ IT BEFORE YOU SEND IT. Logs, Events, and messages are included as they are. Realmkeeper writes no secrets to
them, but other programs also write Events, and the logs contain error messages of your KMS plugin.
The bundle contains names of namespaces, realms, clients, users, and nodes, URLs, and IP addresses.

CONTENTS
%s
NOT INCLUDED
- The data of Secrets and records. The API server was asked for tables without it.
- Values that aren't known to be useful and free of secrets. They are replaced by [redacted]: annotations and
  labels of others, arguments and environment variables of containers, keys and hashes of clients, values of
  claims, descriptions, and data of ConfigMaps.
- Logs, metrics, and last messages of other containers, such as a KMS plugin, and the messages of Events about them.
- managedFields, and objects of others, except Nodes, the NetworkPolicies in the system namespace, and the names of
  client Secrets.

NOT READ
%s`

var errNothingRead = errors.New("nothing could be read; check the context of your kubeconfig, or ask an administrator for the permissions above")

// finish writes README.txt and completes the bundle.
func (b *bundle) finish() error {
	if b.parts == 0 {
		return errNothingRead
	}
	missing := []string{"nothing"}
	if len(b.missing) > 0 {
		missing = nil
	}
	for _, m := range b.missing {
		line := m.String()
		if m.permission != "" {
			line += ". Error: " + m.err.Error()
		}
		missing = append(missing, line)
	}
	readme := fmt.Sprintf(bundleReadme, b.now.UTC().Format(time.RFC3339), version.Version, bulleted(b.contents), bulleted(missing))
	_, _ = io.WriteString(b.create("README.txt"), readme) // Its parts contain no secrets.
	if b.err == nil {
		b.err = b.zip.Close()
	}
	if b.err != nil {
		return fmt.Errorf("writing the bundle: %w", b.err)
	}
	return nil
}

func bulleted(lines []string) string {
	var list strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&list, "-", untrusted.Printable(line))
	}
	return list.String()
}

// write calls collect with a new bundle and writes it to the file of the options, or to standard output. Nothing is
// written before the bundle is complete.
func (o *reportOptions) write(now time.Time, collect func(*bundle) error) error {
	var buffer bytes.Buffer
	var file *output.NewFile
	path, to := o.file, io.Writer(&buffer)
	if o.file != output.Stdio {
		name := "realmkeeper-report-" + now.UTC().Format("20060102T150405Z") + ".zip"
		if info, err := os.Stat(path); path == "" || err == nil && info.IsDir() {
			path = filepath.Join(path, name)
		}
		var err error
		if file, err = output.CreateFile(path, false); err != nil {
			return err
		}
		defer file.Discard()
		to = file
	}
	b := &bundle{zip: zip.NewWriter(to), now: now}
	err := collect(b)
	for _, m := range b.missing {
		if !errors.Is(m.err, context.Canceled) {
			o.Progress("Not included: %s", m)
		}
	}
	if err != nil {
		return err
	}
	if file == nil {
		_, err := untrusted.Raw(o.Streams.Out).Write(buffer.Bytes())
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	output.Line(o.Streams.Out, "Wrote %s. Read README.txt in it before you send it.", path)
	return nil
}

// checkTerminal returns an error if the bundle would be written to a terminal.
func (o *reportOptions) checkTerminal() error {
	if out, ok := untrusted.Raw(o.Streams.Out).(*os.File); ok && o.file == output.Stdio && term.IsTerminal(int(out.Fd())) {
		return fmt.Errorf("%w: the report is a zip file; redirect standard output to a file", output.ErrUsage)
	}
	return nil
}

// Package manifests keeps the manifests of many ApiClients in a folder of a repository up to date. It recognizes the
// files that it wrote, and leaves alone what people wrote or changed.
package manifests

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

// Folder is what the folder contains.
type Folder struct {
	dir   string
	files map[string]*file // by path in the folder, with slashes
}

// file is a file with YAML documents.
type file struct {
	content []byte
	clients []*v1beta1.ApiClient
	// generated means that this package wrote the file, and intact that it was not changed since.
	generated, intact bool
}

// Read reads all YAML files in a folder, except those in hidden folders such as .git. The folder may not exist yet.
func Read(dir string) (*Folder, error) {
	f := &Folder{dir: dir, files: map[string]*file{}}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(path.Base(name), ".") && name != "."
		switch yamlFile := path.Ext(name) == ".yaml" || path.Ext(name) == ".yml"; {
		case name == "." && errors.Is(err, fs.ErrNotExist):
			return fs.SkipAll
		case err != nil:
			return err
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case !entry.Type().IsRegular() || hidden || !yamlFile:
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if err == nil {
			f.files[name], err = parse(name, content)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	return f, nil
}

// parse returns a file with the ApiClients in it. It ignores objects of other kinds.
func parse(name string, content []byte) (*file, error) {
	content = bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")) // as Git writes files on Windows
	f := &file{content: content}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			f.recognize(name)
			return f, nil
		}
		var encoded []byte
		if err == nil {
			encoded, err = yaml.YAMLToJSON(document)
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not valid YAML: %w", name, err)
		}
		var kind metav1.TypeMeta
		if json.Unmarshal(encoded, &kind) != nil || kind.Kind != "ApiClient" || kind.GroupVersionKind().Group != v1beta1.GroupVersion.Group {
			continue
		}
		c := &v1beta1.ApiClient{}
		if err := json.Unmarshal(encoded, c); err != nil {
			return nil, fmt.Errorf("%s has an invalid ApiClient: %w", name, err)
		}
		if c.Namespace == "" {
			c.Namespace = path.Base(path.Dir(name))
		}
		f.clients = append(f.clients, c)
	}
}

// header is the start of each file. Its digest of the rest shows whether the file was changed.
const header = `# "kubectl realmkeeper create client --for-service-accounts" wrote this file, and leaves it alone if you change it.
# sha256: `

// encode returns the content of the file of an ApiClient.
func encode(c *v1beta1.ApiClient) ([]byte, error) {
	body, err := untrusted.MarshalYAML(c)
	if err != nil {
		return nil, fmt.Errorf("encoding ApiClient %s/%s: %w", c.Namespace, c.Name, err)
	}
	return fmt.Appendf(nil, "%s%x\n%s", header, sha256.Sum256(body), body), nil
}

// recognize sets whether the file was generated. One that was moved or copied was not.
func (f *file) recognize(name string) {
	rest, written := bytes.CutPrefix(f.content, []byte(header))
	digest, body, _ := bytes.Cut(rest, []byte("\n"))
	f.generated = written && len(f.clients) == 1 && pathOf(f.clients[0]) == name
	f.intact = f.generated && string(digest) == fmt.Sprintf("%x", sha256.Sum256(body))
}

// pathOf returns the path of the file of an ApiClient: one folder for each namespace, so that each can have its own
// permissions.
func pathOf(c *v1beta1.ApiClient) string {
	name := c.Name
	if len(name) > maxName {
		name = fmt.Sprintf("%s-%x", name[:maxName-17], sha256.Sum256([]byte(name)))[:maxName]
	}
	return c.Namespace + "/apiclient-" + name + ".yaml"
}

// maxName limits names in file names, which can have 255 bytes, including what a temporary file adds.
const maxName = 200

// Write writes the files. Each appears only when it is complete, so that the command can be repeated after an error.
func (f *Folder) Write(p *Plan) error {
	var written atomic.Int64
	group := errgroup.Group{}
	group.SetLimit(16) // Several wait for the disk at the same time.
	for name, content := range p.contents {
		group.Go(func() error {
			err := f.write(name, content, f.files[name] != nil)
			if err == nil {
				written.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%w; %d of %d files were written, so repeat the command", err, written.Load(), len(p.contents))
	}
	return nil
}

func (f *Folder) write(name string, content []byte, replace bool) error {
	if err := os.MkdirAll(f.dir, 0o755); err != nil { //nolint:gosec // as Git creates folders
		return err
	}
	root, err := os.OpenRoot(f.dir) // Neither names nor symbolic links may lead outside.
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	target := filepath.Join(f.dir, filepath.FromSlash(name))
	file, err := output.CreateFile(target, replace)
	if err != nil {
		return err
	}
	defer file.Discard()
	if _, err := file.Write(content); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	return file.Commit()
}

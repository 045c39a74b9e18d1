package portal

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
)

//go:embed templates assets
var files embed.FS

// assets maps names to static files.
var assets = map[string]asset{
	"htmx.js":     loadAsset("vendor/htmx-2.0.11.min.js", "text/javascript; charset=utf-8"),
	"portal.js":   loadAsset("portal.js", "text/javascript; charset=utf-8"),
	"pico.css":    loadAsset("vendor/pico-2.1.1.min.css", "text/css; charset=utf-8"),
	"portal.css":  loadAsset("portal.css", "text/css; charset=utf-8"),
	"favicon.svg": loadAsset("favicon.svg", "image/svg+xml"),
}

type asset struct {
	content []byte
	media   string
	digest  string
}

func loadAsset(name, media string) asset {
	content, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // the file is embedded
	}
	sum := sha256.Sum256(content)
	return asset{content: content, media: media, digest: hex.EncodeToString(sum[:6])}
}

// assetPath returns the path of a static file. It contains the file's digest, so that browsers can
// cache the file permanently.
func assetPath(name string) string { return "/assets/" + name + "?" + assets[name].digest }

func assetHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := assets[r.PathValue("name")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", a.media)
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
	})
}

// pages maps file names to templates. Each template includes the shared templates.
type pages map[string]*template.Template

// parsePages parses the templates. now returns the current time, for relative times.
func parsePages(now func() time.Time) pages {
	functions := template.FuncMap{
		"asset":      assetPath,
		"client":     clientPath,
		"count":      formatCount,
		"plural":     plural,
		"time":       func(t *metav1.Time) template.HTML { return relativeTime(t, now()) },
		"date":       func(t metav1.Time) template.HTML { return relativeTime(&t, now()) },
		"exact":      exactTime,
		"exactDate":  func(t metav1.Time) template.HTML { return exactTime(&t) },
		"used":       func(t *metav1.Time) template.HTML { return useTime(t, now()) },
		"field":      func(name string, invalid map[string]string) formField { return formField{name, invalid[name]} },
		"moment":     func(t time.Time) string { return t.UTC().Format(exactLayout) },
		"namespaces": func(n v1beta1.ExchangeNamespaces) string { return describe.Namespaces(n.Granted()) },
		"join":       func(s []string) string { return strings.Join(s, " ") },
		"role":       func() string { return access.Role },
		"roleTitle":  func() string { return access.RoleTitle },
	}
	shared := template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/shared/*.html"))
	all := pages{}
	entries, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is well-formed
	}
	for _, entry := range entries {
		all[path.Base(entry)] = template.Must(template.Must(shared.Clone()).ParseFS(files, entry))
	}
	return all
}

// formField is a field of a form, with the problem of its value, if any.
type formField struct{ Name, Problem string }

// layout is the data of the layout template.
type layout struct {
	Title   string
	User    access.User // without a name if there is no session
	Section string      // first segment of the path
	Content any
}

// render writes a page. req is nil without a session.
func (p *portal) render(w http.ResponseWriter, req *request, status int, name, title string, content any) {
	data := layout{Title: title, Content: content}
	if req != nil {
		data.User = req.session.User
		data.Section, _, _ = strings.Cut(strings.TrimPrefix(req.r.URL.Path, "/"), "/")
	}
	p.write(w, status, name, "layout", data)
}

// renderPart writes part of a page for htmx.
func (p *portal) renderPart(w http.ResponseWriter, name, part string, content any) {
	p.write(w, http.StatusOK, name, part, content)
}

func (p *portal) write(w http.ResponseWriter, status int, name, part string, data any) {
	var b bytes.Buffer
	if err := p.pages[name].ExecuteTemplate(&b, part, data); err != nil {
		p.Logger.Error("Failed to render page", "page", name, "error", err)
		http.Error(w, "The page could not be rendered. See the portal log.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the client may have disconnected
}

// isPart reports whether htmx requested only part of a page.
func isPart(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

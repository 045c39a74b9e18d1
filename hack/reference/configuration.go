package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// required are the keys without a default, and those without which others have no default.
const required = `{
	"apiVersion": "config.realmkeeper.dev/v1beta1", "kind": "InstanceConfiguration", "instanceDomain": "example.com",
	"security": {"defaultTokenLifetime": "5m"},
	"keyEncryption": {"kms": {"image": "required"}}, "tokenServer": {"tracing": {"endpoint": "http://required"}}}`

// configuration is the source of the package that reads the instance configuration.
type configuration struct {
	structs map[string]*ast.StructType
	// constants are the values of types with constants.
	constants map[string][]any
	// fields maps the names of Go fields to keys.
	fields map[string]string
	// set and defaults are the required keys, and all keys with their defaults.
	set, defaults map[string]any
}

// configurationKeys returns the keys of the instance configuration. Doc comments describe them, and Parse has
// the defaults.
func configurationKeys(dir string) ([]entry, error) {
	c := configuration{structs: map[string]*ast.StructType{}, constants: map[string][]any{}, fields: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(source, c.declare)
	}
	instance, err := config.Parse([]byte(required))
	if err != nil {
		return nil, err
	}
	complete, err := json.Marshal(instance)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(complete, &c.defaults); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(required), &c.set); err != nil {
		return nil, err
	}
	return c.keys("Instance", "")
}

// declare collects the types and constants.
func (c configuration) declare(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.TypeSpec:
		if s, ok := n.Type.(*ast.StructType); ok {
			c.structs[n.Name.Name] = s
			for _, field := range s.Fields.List {
				c.fields[field.Names[0].Name] = key(field)
			}
		}
	case *ast.ValueSpec:
		if t, ok := n.Type.(*ast.Ident); ok && len(n.Values) == 1 {
			if literal, ok := n.Values[0].(*ast.BasicLit); ok {
				value, _ := strconv.Unquote(literal.Value)
				c.constants[t.Name] = append(c.constants[t.Name], value)
			}
		}
	}
	return true
}

// key returns the key of a field, or "-".
func key(field *ast.Field) string {
	if field.Tag == nil {
		return "-"
	}
	name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
	return name
}

// keys returns the keys of a struct.
func (c configuration) keys(name, path string) (entries []entry, err error) {
	for _, field := range c.structs[name].Fields.List {
		id := path + key(field)
		if key(field) == "-" {
			continue
		}
		kind := c.kind(field.Type)
		inner := strings.TrimPrefix(kind, "list of ")
		if c.structs[inner] == nil || inner != kind {
			preset, err := c.preset(id)
			if err != nil {
				return nil, err
			}
			if kind == "boolean" && preset == "" {
				preset = "false"
			}
			entries = append(entries, entry{id: id, values: kind, preset: preset, description: c.describe(field)})
		}
		if c.structs[inner] != nil {
			if inner != kind {
				id += "[]"
			}
			below, err := c.keys(inner, id+".")
			if err != nil {
				return nil, err
			}
			entries = append(entries, below...)
		}
	}
	return entries, nil
}

// preset returns the default of a key.
func (c configuration) preset(id string) (string, error) {
	if lookup(c.set, id) != nil {
		return "", nil // required
	}
	switch value := lookup(c.defaults, id).(type) {
	case nil:
		return "", nil
	case string:
		return zeros.ReplaceAllString(value, "$1"), nil
	default:
		text, err := json.Marshal(value)
		return string(text), err
	}
}

func lookup(document any, id string) any {
	for name := range strings.SplitSeq(id, ".") {
		object, _ := document.(map[string]any)
		document = object[name]
	}
	return document
}

// camelCase matches names of Go fields with several words.
var camelCase = regexp.MustCompile(`\b[A-Z][a-z]+[A-Z]\w+\b`)

// describe returns the doc comment of a field without its name. Other fields in it become keys.
func (c configuration) describe(field *ast.Field) string {
	text := strings.TrimPrefix(field.Doc.Text(), field.Names[0].Name+" ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "is "), "are ")
	if text == "" {
		return ""
	}
	text = camelCase.ReplaceAllStringFunc(text, func(name string) string {
		if key, ok := c.fields[name]; ok && name != field.Names[0].Name {
			return "`" + key + "`"
		}
		return name
	})
	return strings.ToUpper(text[:1]) + text[1:]
}

// kind returns the name of a type, or its constants.
func (c configuration) kind(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return c.kind(e.X)
	case *ast.ArrayType:
		return "list of " + c.kind(e.Elt)
	case *ast.MapType:
		return "map of " + c.kind(e.Value)
	case *ast.SelectorExpr:
		if e.Sel.Name == "Duration" || e.Sel.Name == "Time" {
			return strings.ToLower(e.Sel.Name)
		}
		return e.Sel.Name
	case *ast.Ident:
		if values := c.constants[e.Name]; values != nil {
			return codes(values)
		}
		return strings.NewReplacer("int32", "integer", "bool", "boolean").Replace(e.Name)
	}
	return fmt.Sprintf("%T", expression)
}

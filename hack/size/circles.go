package main

import (
	"fmt"
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/packages"
)

// circles returns the number of files in the biggest circle of each package that has one: files of which each uses
// a name that is declared in another, directly or through others.
func circles(dir string) (map[string]int, error) {
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
		packages.NeedImports | packages.NeedDeps | packages.NeedExportFile
	loaded, err := packages.Load(&packages.Config{Mode: mode &^ packages.NeedDeps, Dir: dir}, "./...")
	if err != nil {
		return nil, err
	}
	biggest := map[string]int{}
	for _, p := range loaded {
		for _, err := range p.Errors {
			return nil, fmt.Errorf("loading %s: %w", p.PkgPath, err)
		}
		if n := biggestCircle(uses(p)); n > 1 {
			biggest[p.PkgPath] = n
		}
	}
	return biggest, nil
}

// uses returns for each file of a package the others whose names it uses.
func uses(p *packages.Package) map[string]map[string]bool {
	graph := map[string]map[string]bool{}
	for _, file := range p.Syntax {
		name := p.Fset.Position(file.Package).Filename
		graph[name] = map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			var used types.Object = p.TypesInfo.Uses[id]
			if used == nil || used.Pkg() != p.Types || !used.Pos().IsValid() {
				return true
			}
			if declared := p.Fset.Position(used.Pos()).Filename; declared != name {
				graph[name][declared] = true
			}
			return true
		})
	}
	return graph
}

// biggestCircle returns the size of the biggest strongly connected component, with Tarjan's algorithm.
func biggestCircle(graph map[string]map[string]bool) int {
	index, low, onStack := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	biggest := 0
	var visit func(string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, onStack[v] = append(stack, v), true
		for w := range graph[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		for size := 1; ; size++ {
			last := stack[len(stack)-1]
			stack, onStack[last] = stack[:len(stack)-1], false
			if last == v {
				biggest = max(biggest, size)
				return
			}
		}
	}
	for v := range graph {
		if index[v] == 0 {
			visit(v)
		}
	}
	return biggest
}

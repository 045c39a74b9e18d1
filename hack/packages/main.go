// Command packages draws docs/images/packages.svg: the folders of internal/ with their packages, the programs in
// cmd/, and arrows for the imports between them. Tests don't count.
//
//	make generate
//
// It runs in the root of the repository, and builds nothing.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Lengths in pixels, and how many columns of packages a row of boxes has.
const (
	width, margin, gap, space = 880, 20, 16, 44
	header, line, columns     = 40, 19, 5
)

const programs = "cmd"

// folder is a box with packages.
type folder struct {
	name     string
	packages []string
	imports  map[string]int // number of imports by folder
	row      int

	x, y, width, height float64
	columns             int
}

func main() {
	folders, err := read()
	if err == nil {
		err = arrange(folders)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
	draw(folders)
}

// read returns the folders, sorted by name.
func read() ([]*folder, error) {
	command := exec.Command("go", "list", "-json=ImportPath,GoFiles,Imports", "./"+programs+"/...", "./internal/...")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var folders []*folder
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		var p struct {
			ImportPath       string
			GoFiles, Imports []string
		}
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		if len(p.GoFiles) == 0 {
			continue // only tests
		}
		name, path := split(p.ImportPath)
		if len(folders) == 0 || folders[len(folders)-1].name != name {
			folders = append(folders, &folder{name: name, imports: map[string]int{}})
		}
		f := folders[len(folders)-1]
		if path != "" && strings.Count(path, "/") < 2 {
			f.packages = append(f.packages, path)
		}
		for _, i := range p.Imports {
			if other, _ := split(i); other != name {
				f.imports[other]++
			}
		}
	}
	return folders, nil
}

// split returns the folder of a package of ours, and the rest of its path.
func split(path string) (name, rest string) {
	path, ours := strings.CutPrefix(path, "github.com/realmkeeper/realmkeeper/")
	path, internal := strings.CutPrefix(path, "internal/")
	name, rest, _ = strings.Cut(path, "/")
	if !ours || !internal && name != programs {
		return "", ""
	}
	return name, rest
}

// leadsUp returns whether an arrow leads up. If two folders import each other, that from the one that imports less
// does.
func leadsUp(from, to *folder) bool {
	return cmp.Or(to.imports[from.name]-from.imports[to.name], cmp.Compare(from.name, to.name)) > 0
}

// arrange puts each folder below those that import it. A folder that more than two others import has a row of its
// own, so that all arrows to it can be vertical.
func arrange(folders []*folder) error {
	importers := map[*folder]int{}
	for rounds, changed := 0, true; changed; rounds++ {
		if changed = false; rounds > len(folders) {
			return errors.New("the folders import each other in a circle")
		}
		clear(importers)
		for _, from := range folders {
			for _, to := range folders {
				if from.imports[to.name] == 0 {
					continue
				}
				importers[to]++
				if !leadsUp(from, to) && to.row <= from.row {
					to.row, changed = from.row+1, true
				}
			}
		}
	}
	slices.SortStableFunc(folders, func(a, b *folder) int { return cmp.Compare(a.row, b.row) })
	y := float64(margin)
	for len(folders) > 0 {
		n := 1
		for n < len(folders) && folders[n].row == folders[0].row && importers[folders[n]] <= 2 && importers[folders[n-1]] <= 2 {
			n++
		}
		y += place(folders[:n], y) + space
		folders = folders[n:]
	}
	return nil
}

// lines returns how many lines the packages need.
func (f *folder) lines() int { return (len(f.packages) + f.columns - 1) / f.columns }

// place places boxes next to each other, and returns their height.
func place(row []*folder, y float64) float64 {
	longest := func() *folder { return slices.MaxFunc(row, func(a, b *folder) int { return a.lines() - b.lines() }) }
	for _, f := range row {
		f.columns = 1
	}
	for range columns - len(row) {
		longest().columns++
	}
	x, column := float64(margin), float64(width-2*margin-gap*(len(row)-1))/columns
	height := float64(header + longest().lines()*line)
	for _, f := range row {
		f.x, f.y, f.width, f.height = x, y, column*float64(f.columns), height
		x += f.width + gap
	}
	return height
}

type arrow struct{ x, from, to float64 }

// arrowBetween returns an arrow that is as far as possible from others at the same height, and from the sides of
// boxes.
func arrowBetween(from, to *folder, others []arrow, folders []*folder) arrow {
	best, distance := arrow{from: from.y + from.height, to: to.y}, -1.0
	if leadsUp(from, to) {
		best.from, best.to = from.y, to.y+to.height
	}
	for x := max(from.x, to.x) + 2*gap; x <= min(from.x+from.width, to.x+to.width)-2*gap; x += 4 {
		nearest := math.Inf(1)
		for _, o := range others {
			if min(best.from, best.to) < max(o.from, o.to) && min(o.from, o.to) < max(best.from, best.to) {
				nearest = min(nearest, math.Abs(o.x-x))
			}
		}
		for _, f := range folders {
			nearest = min(nearest, 4*math.Abs(f.x-x), 4*math.Abs(f.x+f.width-x))
		}
		if nearest > distance {
			best.x, distance = x, nearest
		}
	}
	return best
}

// The colors are those of overview.svg.
const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]g" width="%[1]d" height="%[2]g" role="img" aria-labelledby="title" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13">
  <title id="title">The folders of internal/ with their packages, the programs in cmd/, and which of them import which others</title>
  <style>
    .page { fill: #ffffff }
    .box { fill: #f1f5f9; fill-opacity: 0.9; stroke: #94a3b8 }
    .cmd { fill: #0f766e; stroke: #0f766e }
    .white { fill: #ffffff }
    .name { fill: #0f172a }
    .parent, .head { fill: #475569 }
    .line { fill: none; stroke: #475569; stroke-width: 1.6; marker-start: url(#dot); marker-end: url(#arrow) }
    .up { stroke-dasharray: 5 4 }
    @media (prefers-color-scheme: dark) {
      .page { fill: #1b1f24 }
      .box { fill: #262c34; stroke: #66717f }
      .name { fill: #f1f5f9 }
      .parent, .head { fill: #b6c2d0 }
      .line { stroke: #b6c2d0 }
    }
  </style>
  <defs>
    <marker id="dot" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="5" markerHeight="5"><circle class="head" cx="5" cy="5" r="5"/></marker>
    <marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path class="head" d="M0 0 10 5 0 10z"/></marker>
  </defs>
  <rect width="%[1]d" height="%[2]g" rx="12" class="page"/>
`

// draw draws the boxes, with the arrows behind them.
func draw(folders []*folder) {
	last := folders[len(folders)-1]
	fmt.Printf(head, width, last.y+last.height+margin)
	var arrows []arrow
	for _, from := range folders {
		for _, to := range folders {
			if from.imports[to.name] > 0 {
				a, class := arrowBetween(from, to, arrows, folders), "line"
				if leadsUp(from, to) {
					class += " up"
				}
				arrows = append(arrows, a)
				fmt.Printf(`  <path class="%s" d="M%g %gV%g"/>`+"\n", class, a.x, a.from, a.to)
			}
		}
	}
	for _, f := range folders {
		box, name := "box", "name"
		if f.name == programs {
			box, name = "cmd", "white"
		}
		fmt.Printf(`  <rect x="%g" y="%g" width="%g" height="%g" rx="8" class="%s"/>`+"\n", f.x, f.y, f.width, f.height, box)
		fmt.Printf(`  <g class="%s">`+"\n"+`    <text x="%g" y="%g" font-size="15" font-weight="600">%s</text>`+"\n", name, f.x+gap, f.y+23, f.name)
		for i, p := range f.packages {
			x := f.x + gap + float64(i/f.lines())*f.width/float64(f.columns)
			if parent, child, ok := strings.Cut(p, "/"); ok {
				p = fmt.Sprintf(`<tspan class="parent">%s/</tspan>%s`, parent, child)
			}
			fmt.Printf(`    <text x="%g" y="%d">%s</text>`+"\n", x, int(f.y)+header+i%f.lines()*line+5, p)
		}
		fmt.Println("  </g>")
	}
	fmt.Println("</svg>")
}

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	// A flag in the help of the package flag, or of pflag.
	flagHelp = regexp.MustCompile(`(?m)^  -([\w-]{2,})(?: (\S+))?\n    \t(.*)$|^ {2,6}((?:-\w, )?--[\w-]+)(?: (\S+))? {2,}(.*)$`)
	zeros    = regexp.MustCompile(`^(\d.*?[hm])(?:0m)?0s$`) // of a duration
	preset   = regexp.MustCompile(`^(.*) \(default "?(.*?)"?\)$`)
	commands = regexp.MustCompile(`(?ms)^Available Commands:\n(.*?)\n\n`)
	verb     = regexp.MustCompile(`(?m)^  ([\w-]+) `)
)

// manyCommands is from how many commands on a flag is one of most commands.
const manyCommands = 6

// programFlag is a flag as the help describes it. The same flag can be in several commands.
type programFlag struct{ name, values, preset, description string }

// programFlags returns the flags of a program and its commands, those of several commands only once.
func programFlags(program string) ([]entry, error) {
	var flags []programFlag
	in := map[programFlag][]string{}
	for queue := [][]string{nil}; len(queue) > 0; queue = queue[1:] {
		command := queue[0]
		help := exec.Command(program, slices.Concat(command, []string{"--help"})...)
		help.Env, help.Stderr = []string{"HOME=/"}, os.Stderr // Defaults depend on the environment.
		out, err := help.Output()
		if err != nil {
			return nil, fmt.Errorf("%s --help: %w", strings.Join(help.Args, " "), err)
		}
		for _, match := range flagHelp.FindAllStringSubmatch(string(out), -1) {
			f := newProgramFlag(match)
			if in[f] == nil {
				flags = append(flags, f)
			}
			in[f] = append(in[f], strings.Join(command, " "))
		}
		for _, match := range verb.FindAllStringSubmatch(commands.FindString(string(out)), -1) {
			if match[1] != "help" && match[1] != "completion" {
				queue = append(queue, slices.Concat(command, match[1:]))
			}
		}
	}
	var entries []entry
	for _, f := range flags {
		id, name := filepath.Base(program), "`"+f.name+"`"
		_, long, _ := strings.Cut(f.name, "--")
		if long == "help" || long == "version" {
			continue
		}
		switch users := in[f]; {
		case len(users) >= manyCommands:
			id += " *"
			name += " of most commands"
		case users[0] != "":
			id += " " + users[0]
			name += " of `" + strings.Join(users, "`, `") + "`"
		}
		entries = append(entries, entry{id + " --" + long, name, f.values, f.preset, f.description})
	}
	return entries, nil
}

// newProgramFlag returns the flag that flagHelp has matched.
func newProgramFlag(match []string) programFlag {
	f := programFlag{"--" + match[1], match[2], "", match[3]}
	if match[4] != "" {
		f = programFlag{match[4], match[5], "", match[6]}
	}
	if found := preset.FindStringSubmatch(f.description); found != nil {
		f.description, f.preset = found[1], zeros.ReplaceAllString(found[2], "$1")
	}
	switch {
	case f.values == "": // Only flags that need no value have none.
		f.values, f.preset = "boolean", cmp.Or(f.preset, "false")
	case f.values == "int":
		f.values = "integer"
	case f.values == "stringArray":
		f.values = "strings"
	case f.values != strings.ToUpper(f.values) && f.values != "CIDRs":
		f.values = strings.ToLower(f.values)
	}
	if strings.Contains(f.description, "Defaults to the host name") { // The help has that of this machine.
		f.preset = ""
	}
	f.description = strings.ReplaceAll(f.description, "<", "&lt;")
	return f
}

// Reasons prints the explanations of the reasons of conditions as a page in Markdown.
package main

import (
	"fmt"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

const head = `# Reasons

The conditions of Realms, ApiClients, and the Instance have these reasons. The message of the
condition names the objects and values. ` + "`kubectl realmkeeper explain`" + ` prints the commands that
help, and for the Instance ` + "`kubectl realmkeeper status`" + `.

- **None**: everything works as specified.
- **Progress**: the operator or a token server is working. No action is needed.
- **Intended**: the spec asks for this state.
- **Consequence**: another object has the problem.
- **Waiting**: something else must appear first.
- **Warning**: the object works, at least in part, and needs attention.
- **Error**: the object cannot be used until you change it, or another object. ` + "`Stalled`" + ` is True.

| Reason | Severity | Cause | Remedy |
| --- | --- | --- | --- |
`

func main() {
	fmt.Print(head)
	for _, reason := range v1beta1.Reasons() {
		e, _ := reason.Explain()
		fmt.Printf("| `%s` | %s | %s | %s |\n", reason, e.Severity, cell(e.Cause), cell(e.Action))
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

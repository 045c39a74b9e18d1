package console

import (
	"regexp"
	"strings"
)

// varying matches what differs from run to run.
var varying = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	// Pages can shorten these.
	{regexp.MustCompile(`\beyJ[\w-]*(\.[\w-]+\.[\w-]+|\.\.\.)`), "TOKEN"},
	{regexp.MustCompile(`\brk_[\w-]*(\.\.\.)?`), "SECRET"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	// The names of Pods, which have no vowels where Kubernetes generates them.
	{regexp.MustCompile(`-[b-df-hj-np-tv-z2456789]{6,10}-[b-df-hj-np-tv-z2456789]{5}\b`), "-POD"},
	// Thumbprints of keys, checksums, and commits.
	{regexp.MustCompile(`(^|[^\w-])[\w-]{43}($|[^\w-])`), "${1}HASH${2}"},
	{regexp.MustCompile(`\bg?[0-9a-f]{7,64}\b`), "HASH"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|s|m|h|d))+\b`), "AGE"},
	// The columns of tables, whose widths depend on their contents.
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`(?m) $`), ""},
}

// normalize replaces what differs from run to run, such as ages, tokens and times.
func normalize(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.replacement)
	}
	return strings.TrimSpace(text)
}

// omission is what pages write for text that they leave out.
const omission = "..."

// matches reports whether a command has printed what the page shows. In the page, three dots stand
// for any text in a line, and a line of three dots for any lines.
func matches(page, printed string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for line := range strings.Lines(normalize(page) + "\n") {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimSpace(line) == omission {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		for i, part := range strings.Split(line, omission) {
			if i > 0 {
				pattern.WriteString(`.*`)
			}
			pattern.WriteString(regexp.QuoteMeta(part))
		}
		pattern.WriteString(`\n`)
	}
	pattern.WriteString(`$`)
	return regexp.MustCompile(pattern.String()).MatchString(normalize(printed) + "\n")
}

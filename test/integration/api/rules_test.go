package api_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryRuleIsTested checks that the tables contain a rejected case for each rule of a spec. A
// rule without such a case might never reject anything.
func TestEveryRuleIsTested(t *testing.T) {
	for _, kind := range kinds {
		tested := kind.rejections()
		for _, n := range walk("", schemaOf(t, kind)) {
			if n.path == "status" || strings.HasPrefix(n.path, "status.") {
				continue // Only the operator writes the status.
			}
			for _, rule := range n.rules() {
				if !slices.ContainsFunc(tested, rule.matches) {
					t.Errorf("%s: no case violates the rule %q of %s", kind.name, rule.text, rule.path)
				}
			}
		}
	}
}

// rule is the text with which the API server rejects a field.
type rule struct{ path, text string }

// matches reports whether r is the rule that a case expects.
func (r rule) matches(want rule) bool {
	return r.path == want.path && (strings.Contains(want.text, r.text) || strings.Contains(r.text, want.text))
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// mapValue matches the path of a map value if the API server formats its key like a field name.
var mapValue = regexp.MustCompile(`(\.(labels|annotations|matchLabels|generated\.keys|requiredClaims|claims))\.[^.]+$`)

// rejections returns the rules that k's cases expect to be violated.
func (k kind) rejections() []rule {
	var rejections []rule
	add := func(field, text string) {
		path := mapValue.ReplaceAllString(index.ReplaceAllString(field, "[]"), "$1[]")
		if path == "<nil>" {
			path = ""
		}
		// The rejected value precedes the rule and is not part of it.
		_, after, found := strings.Cut(text, `": `)
		if found && strings.HasPrefix(text, "Invalid value: ") {
			text = after
		}
		rejections = append(rejections, rule{path, text})
	}
	for _, tc := range merged(k.validations) {
		if tc.wantField != "" {
			add(tc.wantField, tc.wantRule)
		}
	}
	for _, tc := range merged(k.transitions) {
		if tc.wantField != "" {
			add(tc.wantField, tc.wantRule)
		}
	}
	return rejections
}

// literal matches the string literal at the beginning of a message expression.
var literal = regexp.MustCompile(`^(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")`)

// rules returns the rules of n with the text that the API server uses in errors.
func (n node) rules() []rule {
	var rules []rule
	add := func(path, format string, args ...any) {
		rules = append(rules, rule{path, fmt.Sprintf(format, args...)})
	}
	s := n.schema
	for _, v := range s.XValidations {
		text := v.Message
		if v.MessageExpression != "" {
			match := literal.FindStringSubmatch(v.MessageExpression)
			text = strings.ReplaceAll(match[1]+match[2], `\'`, "'")
		}
		add(strings.TrimPrefix(n.path+v.FieldPath, "."), "%s", text)
	}
	for _, member := range s.Required {
		add(strings.TrimPrefix(n.path+"."+member, "."), "Required value")
	}
	if s.MaxLength != nil {
		add(n.path, "may not be more than %d", *s.MaxLength)
	}
	if s.MinLength != nil {
		add(n.path, "should be at least %d chars long", *s.MinLength)
	}
	if s.MaxItems != nil {
		add(n.path, "must have at most %d items", *s.MaxItems)
	}
	if s.MinItems != nil {
		add(n.path, "should have at least %d items", *s.MinItems)
	}
	if s.MaxProperties != nil {
		add(n.path, "must have at most %d items", *s.MaxProperties)
	}
	if len(s.Enum) > 0 {
		add(n.path, "Unsupported value")
	}
	if s.Pattern != "" {
		add(n.path, "in body should match")
	}
	if s.Format != "" {
		add(n.path, "must be of type %s", s.Format)
	}
	if s.XListType != nil && *s.XListType == "set" {
		add(n.path+"[]", "Duplicate value")
	}
	return rules
}

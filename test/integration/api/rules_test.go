package api_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryRuleIsTested checks that for each rule of a spec there is a case that the API
// server refuses for it: a rule without one may hold nothing at all.
func TestEveryRuleIsTested(t *testing.T) {
	for _, kind := range kinds {
		tested := kind.refusals()
		for _, n := range walk("", schemaOf(t, kind)) {
			if n.path == "status" || strings.HasPrefix(n.path, "status.") {
				continue // The operator writes it.
			}
			for _, rule := range n.rules() {
				if !slices.ContainsFunc(tested, rule.refused) {
					t.Errorf("%s: no case breaks the rule %q of %s", kind.name, rule.text, rule.path)
				}
			}
		}
	}
}

// rule is what the API server says of a field that breaks one.
type rule struct{ path, text string }

// refused says whether refusal, the rule that a case expects, is this one.
func (r rule) refused(refusal rule) bool {
	return r.path == refusal.path && (strings.Contains(refusal.text, r.text) || strings.Contains(r.text, refusal.text))
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// mapValue matches the path of a value of a map where the API server writes its key as
// it writes a member.
var mapValue = regexp.MustCompile(`(\.(labels|annotations|matchLabels|keys))\.[^.]+$`)

// refusals are the rules that the cases of k expect to be refused for.
func (k kind) refusals() []rule {
	var refusals []rule
	add := func(field, text string) {
		path := mapValue.ReplaceAllString(index.ReplaceAllString(field, "[]"), "$1[]")
		if path == "<nil>" {
			path = ""
		}
		// The value in front of the rule of the schema is not part of it.
		_, after, found := strings.Cut(text, `": `)
		if found && strings.HasPrefix(text, "Invalid value: ") {
			text = after
		}
		refusals = append(refusals, rule{path, text})
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
	return refusals
}

// literal is the text with which a message expression begins.
var literal = regexp.MustCompile(`^(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")`)

// rules are the rules of n in the words of the API server.
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

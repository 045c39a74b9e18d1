// Package testkit has short forms of what most tests do. It is for tests.
package testkit

import "github.com/google/go-cmp/cmp"

// T is a test, a benchmark, a fuzz target, or a check of rapid.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Do ends the test if there is an error.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Value returns a function that returns v, or ends the test if there is an error. The two calls let the
// result of a function be the only argument:
//
//	v := testkit.Value(f())(t)
func Value[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Diff fails the test if two values differ. It begins the message with what they are.
func Diff(t T, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

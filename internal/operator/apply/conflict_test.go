package apply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

var (
	secrets          = schema.GroupResource{Resource: "secrets"}
	errConflict      = fmt.Errorf("changing Secret x: %w", apierrors.NewConflict(secrets, "x", errors.New("modified")))
	errAlreadyExists = fmt.Errorf("creating Secret x: %w", apierrors.NewAlreadyExists(secrets, "x"))
	errForbidden     = fmt.Errorf("creating Secret x: %w", apierrors.NewForbidden(secrets, "x", errors.New("quota")))
)

func TestIsStale(t *testing.T) {
	tests := map[string]struct {
		err  error
		want bool
	}{
		"conflict":                       {errConflict, true},
		"already exists":                 {errAlreadyExists, true},
		"two wrapped conflicts":          {fmt.Errorf("writing: %w", errors.Join(errConflict, errAlreadyExists)), true},
		"conflict joined with an error":  {errors.Join(errConflict, errForbidden), false},
		"conflict wrapped with an error": {fmt.Errorf("%w: %w", errForbidden, errConflict), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := apply.IsStale(tc.err); got != tc.want {
				t.Errorf("IsStale(%v) = %t, want %t", tc.err, got, tc.want)
			}
		})
	}
}

// controller-runtime logs and counts every error that Reconcile returns. A conflict must not be
// returned to it.
func TestRetryConflicts(t *testing.T) {
	done := reconcile.Result{RequeueAfter: 42}
	tests := map[string]struct {
		result  reconcile.Result
		err     error
		want    reconcile.Result
		wantErr error
		wantLog string
	}{
		"success":                       {result: done, want: done},
		"conflict":                      {err: errConflict, want: reconcile.Result{RequeueAfter: apply.ConflictDelay}, wantLog: "modified"},
		"another error":                 {err: errForbidden, wantErr: errForbidden},
		"conflict joined with an error": {err: errors.Join(errConflict, errForbidden), wantErr: errForbidden},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			// In the bubble, both conflicts happen at the same time.
			synctest.Test(t, func(t *testing.T) {
				var debug, normal strings.Builder
				logger := funcr.New(func(_, args string) { debug.WriteString(args) }, funcr.Options{Verbosity: 1})
				quiet := funcr.New(func(_, args string) { normal.WriteString(args) }, funcr.Options{})
				request := reconcile.Request{}
				request.Name = "acme"
				reconciler := apply.RetryConflicts(reconcile.Func(func(_ context.Context, got reconcile.Request) (reconcile.Result, error) {
					if got != request {
						t.Errorf("reconciled %s, want %s", got, request)
					}
					return tc.result, tc.err
				}))
				for _, log := range []logr.Logger{logger, quiet} {
					got, err := reconciler.Reconcile(ctrl.LoggerInto(t.Context(), log), request)
					if got != tc.want || !errors.Is(err, tc.wantErr) {
						t.Errorf("got %+v and error %v, want %+v and error %v", got, err, tc.want, tc.wantErr)
					}
				}
				if !strings.Contains(debug.String(), tc.wantLog) || (tc.wantLog == "") != (debug.Len() == 0) {
					t.Errorf("debug log is %q, want it to contain %q", debug.String(), tc.wantLog)
				}
				if normal.Len() > 0 {
					t.Errorf("log is %q, want no entry below debug level", normal.String())
				}
			})
		})
	}
}

// A conflict that does not go away is not part of normal operation, so it must be logged and
// retried with backoff like any other error. Any number of conflicts within a short time is part of
// normal operation, because each change of an object by another client triggers a reconcile.
func TestLastingConflictBecomesError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails error
		reconciler := apply.RetryConflicts(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, fails
		}))
		acme, other := reconcile.Request{}, reconcile.Request{}
		acme.Name, other.Name = "acme", "other"
		expect := func(request reconcile.Request, delay time.Duration, want error) {
			t.Helper()
			got, err := reconciler.Reconcile(t.Context(), request)
			if got.RequeueAfter != delay || !errors.Is(err, want) {
				t.Fatalf("%s: delay %s and error %v, want %s and %v", request.Name, got.RequeueAfter, err, delay, want)
			}
		}
		for _, conflict := range []error{errAlreadyExists, errConflict} {
			fails = conflict
			for range 1000 {
				expect(acme, apply.ConflictDelay, nil)
			}
			for delay, since := apply.ConflictDelay, time.Now(); time.Since(since) < apply.MaxConflictDuration; delay *= 2 {
				expect(acme, delay, nil)
				time.Sleep(delay)
			}
			expect(acme, 0, conflict)
			expect(acme, 0, conflict)
			expect(other, apply.ConflictDelay, nil)

			fails = nil
			expect(acme, 0, nil)
			expect(other, 0, nil)
		}
	})
}

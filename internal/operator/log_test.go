package operator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/realmkeeper/realmkeeper/internal/operator"
)

// A stop cancels what is in progress, which isn't worth an error. Other errors are logged while it stops, too.
func TestLoggerOmitsCancellations(t *testing.T) {
	request := &url.Error{Op: "Patch", URL: "https://api", Err: context.Canceled}
	failure, lost := errors.New("the disk is full"), errors.New("leader election lost")
	const afterStop = "error received after stop sequence was engaged" // in controller-runtime
	for name, test := range map[string]struct {
		err     error
		message string // "Reconciler error" if empty
		want    bool
	}{
		"canceled":                        {err: context.Canceled},
		"canceled request":                {err: fmt.Errorf("changing Secret a: %w", request)},
		"two canceled requests":           {err: fmt.Errorf("reconciling: %w", errors.Join(request, context.Canceled))},
		"failure":                         {err: failure, want: true},
		"timeout":                         {err: fmt.Errorf("reading Realm a: %w", context.DeadlineExceeded), want: true},
		"failure with a canceled request": {err: fmt.Errorf("reconciling: %w", errors.Join(failure, request)), want: true},
		"no error":                        {err: nil, want: true},
		"released Lease":                  {err: lost, message: afterStop},
		"lost Lease":                      {err: lost, message: "Operator failed, will start over", want: true},
		"failure at a stop":               {err: failure, message: afterStop, want: true},
		"no error at a stop":              {message: afterStop, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			logger := operator.Logger(funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) }, funcr.Options{}))
			logger.WithName("realm").WithValues("name", "acme").Error(test.err, cmp.Or(test.message, "Reconciler error"))
			if got := len(lines) == 1 && strings.HasPrefix(lines[0], "realm ") && strings.Contains(lines[0], `"name"="acme"`); got != test.want {
				t.Errorf("The log is %q", lines)
			}
		})
	}
}

func TestLoggerKeepsOtherInformation(t *testing.T) {
	var lines []string
	logger := operator.Logger(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	logger.Info("Starting", "err", context.DeadlineExceeded)
	logger.V(1).Info("Details")
	logger.Info("Failed to renew lease", "err", fmt.Errorf("renewing: %w", context.Canceled)) // as client-go does at a stop
	if len(lines) != 1 || !strings.Contains(lines[0], "Starting") {
		t.Errorf("The log is %q", lines)
	}
}

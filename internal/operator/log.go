package operator

import (
	"context"
	"errors"
	"slices"

	"github.com/go-logr/logr"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// Logger returns a logger that writes to the given one, except for messages that only say that something was
// canceled. When the operator stops or starts over, every request and wait in progress ends with such an
// error, and controller-runtime and client-go log many of them.
func Logger(logger logr.Logger) logr.Logger { return logger.WithSink(sink{LogSink: logger.GetSink()}) }

// sink adds the values to the wrapped one when it logs, because controller-runtime adds some to the logger of
// each reconcile, and most log nothing.
type sink struct {
	logr.LogSink

	values []any
}

// Error implements logr.LogSink.
func (s sink) Error(err error, message string, keysAndValues ...any) {
	if !canceled(err) && !released(err, message) {
		s.complete().Error(err, message, keysAndValues...)
	}
}

// Info implements logr.LogSink. Some errors, such as that of a renewal of the Lease, are logged as values.
func (s sink) Info(level int, message string, keysAndValues ...any) {
	for _, value := range keysAndValues {
		if err, ok := value.(error); ok && canceled(err) {
			return
		}
	}
	s.complete().Info(level, message, keysAndValues...)
}

// released reports whether controller-runtime logs at a stop that the leader Lease is lost, because the manager has
// released it. If the Lease is really lost, the manager returns this error instead.
func released(err error, message string) bool {
	return err != nil && err.Error() == "leader election lost" && message == "error received after stop sequence was engaged"
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(keysAndValues ...any) logr.LogSink {
	return sink{s.LogSink, slices.Concat(s.values, keysAndValues)}
}

// WithName implements logr.LogSink.
func (s sink) WithName(name string) logr.LogSink { return sink{s.LogSink.WithName(name), s.values} }

// complete returns the wrapped sink with the values.
func (s sink) complete() logr.LogSink {
	if len(s.values) == 0 {
		return s.LogSink
	}
	return s.LogSink.WithValues(s.values...)
}

// canceled reports whether an error, or each of several joined ones, is that of a canceled context.
func canceled(err error) bool {
	return apply.Each(err, func(err error) bool { return errors.Is(err, context.Canceled) })
}

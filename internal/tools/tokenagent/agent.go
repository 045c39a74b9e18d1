// Package tokenagent keeps a file with an access token fresh, for programs that read a bearer token from a file.
//
// A Client reads the credentials and requests a token, a File holds it, and an Agent says when.
package tokenagent

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// Agent renews the token in a file.
type Agent struct {
	// Request requests a token. Its errors are logged, so they contain no secret.
	Request func(context.Context) (Token, error)
	File    File
	Logger  *slog.Logger
	Metrics *Metrics
	// Random returns a number in [0, 1).
	Random func() float64
	// Now returns the time of the wall clock.
	Now func() time.Time
	// KeepExpired leaves the file when its token expires. Some readers don't notice a new file after the file was
	// removed.
	KeepExpired bool

	reported map[string]string // what the log says already, by message
}

// Run keeps the file fresh until ctx is done, and leaves it then. Whatever fails, it tries again.
//
// The file has the last token until it expires, even if this process has just started.
func (a *Agent) Run(ctx context.Context) {
	var failures int
	a.reported = map[string]string{}
	expires := a.File.Expires()
	a.Metrics.setExpiry(expires)
	spread := true
	for {
		expires = a.removeExpired(expires)
		token, err := a.renew(ctx)
		var next time.Duration
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			next, spread = retryDelay(err, failures, a.Random()), true
			a.Metrics.countFailure(err)
			a.report("Failed to renew the token", err)
		default:
			next, expires = renewalDelay(token.Lifetime, spread, a.Random()), token.Expires
			if spread {
				a.Logger.Info("Wrote a token", "expires", expires.UTC().Format(time.RFC3339))
			}
			failures, spread = 0, false
			clear(a.reported)
			a.Metrics.setExpiry(expires)
		}
		renewal := a.Now().Add(next)
		if !expires.IsZero() && a.remaining(expires) <= next {
			if !a.sleepUntil(ctx, expires) {
				return
			}
			expires = a.removeExpired(expires)
		}
		if !a.sleepUntil(ctx, renewal) {
			return
		}
	}
}

// Once writes the file, and tries again after failures until ctx is done. Then it returns the last failure.
func (a *Agent) Once(ctx context.Context) error {
	var last error
	for failures := 1; ; failures++ {
		_, err := a.renew(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return cmp.Or(last, err) // not that ctx is done
		}
		last = err
		if !a.sleepUntil(ctx, a.Now().Add(retryDelay(err, failures, a.Random()))) {
			return last
		}
	}
}

func (a *Agent) renew(ctx context.Context) (Token, error) {
	token, err := a.Request(ctx)
	if err != nil {
		return Token{}, err
	}
	return token, a.File.Write(token)
}

// report logs a failure, unless it did so before. The text of some differs each time, for example in a port or the
// time, so their codes are compared.
func (a *Agent) report(message string, err error) {
	what := codeOf(err)
	if what != codeConnection && what != codeCertificate {
		what = err.Error()
	}
	if a.reported[message] != what {
		a.Logger.Error(message, "error", err)
	}
	a.reported[message] = what
}

// removeExpired removes the file if its token has expired, because a reader would rather see that there is no token
// than present one that every API rejects. It returns when the token in the file expires, or zero if there is none.
func (a *Agent) removeExpired(expires time.Time) time.Time {
	if expires.IsZero() || a.remaining(expires) > 0 {
		return expires
	}
	if at := a.File.Expires(); a.Now().Before(at) { // Another agent has replaced the file.
		a.Metrics.setExpiry(at)
		return at
	}
	a.Metrics.setExpiry(time.Time{})
	expired := expires.UTC().Format(time.RFC3339)
	if a.KeepExpired {
		a.Logger.Error("The token in the file has expired", "expired", expired)
	} else if err := a.File.Remove(); err != nil {
		a.report("Failed to remove the expired token", err)
		return expires // to try again
	} else {
		a.Logger.Error("Removed the token because it has expired", "expired", expired)
	}
	return time.Time{}
}

// remaining returns the time until another, by the clock that says less. Monotonic time and timers stand still while a
// machine is suspended, but tokens expire.
func (a *Agent) remaining(at time.Time) time.Duration {
	return min(time.Until(at), at.Round(0).Sub(a.Now().Round(0)))
}

// maxSleep limits how late sleepUntil returns after the machine was suspended.
const maxSleep = 30 * time.Second

// sleepUntil returns whether the time came before ctx was done.
func (a *Agent) sleepUntil(ctx context.Context, at time.Time) bool {
	for left := a.remaining(at); left > 0; left = a.remaining(at) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(left, maxSleep)):
		}
	}
	return ctx.Err() == nil
}

// minRenewal is the shortest time between two renewals.
const minRenewal = time.Second

// renewalDelay returns when to renew a token: after two thirds of its lifetime, and up to a 24th more. Many agents can
// request a token at the same moment: when a cluster starts, or after an outage. Then they spread: the next renewal is
// at any time until two thirds of the lifetime have passed.
func renewalDelay(lifetime time.Duration, spread bool, random float64) time.Duration {
	full := lifetime * 2 / 3
	if spread {
		return max(minRenewal, time.Duration(random*float64(full)))
	}
	return max(minRenewal, full+time.Duration(random*float64(lifetime/24)))
}

const (
	// minRetry is the delay after the first failure. By then, token servers usually know a new ApiClient.
	minRetry = time.Second
	// maxRetry limits the delay after what can pass by itself. Together with requestTimeout and what is left of a
	// token of five minutes, it lets readers survive a minute without token servers.
	maxRetry = 10 * time.Second
	// maxSlowRetry limits the delay after what a person must correct.
	maxSlowRetry = 30 * time.Second
	// maxRetryAfter limits Retry-After, so that no proxy can stop the agent.
	maxRetryAfter = 5 * time.Minute
)

// retryDelay returns when to try again after a number of failures in a row: after twice the time of the last
// failure, and Retry-After at the earliest. Up to half of it is added, so that agents don't come back together.
func retryDelay(err error, failures int, random float64) time.Duration {
	delay, limit := minRetry, maxSlowRetry
	if passes(err) {
		limit = maxRetry
	}
	for range failures - 1 {
		delay = min(2*delay, limit)
	}
	delay = max(delay, min(retryAfter(err), maxRetryAfter))
	return delay + time.Duration(random*float64(delay)/2)
}

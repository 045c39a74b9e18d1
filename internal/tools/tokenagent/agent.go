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
	// KeepExpired leaves the file when its token expires. Some readers don't notice a new file after the file was
	// removed.
	KeepExpired bool
}

// Run keeps the file fresh until ctx is done, and leaves it then. Whatever fails, it tries again.
//
// The file has the last token until it expires, even if this process has just started.
func (a *Agent) Run(ctx context.Context) {
	var failures int
	var reported string
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
			if err.Error() != reported {
				a.Logger.Error("Failed to renew the token", "error", err)
			}
			reported = err.Error()
		default:
			next, expires = renewalDelay(token.Lifetime, spread, a.Random()), token.Expires
			if spread {
				a.Logger.Info("Wrote a token", "expires", expires.UTC().Format(time.RFC3339))
			}
			failures, reported, spread = 0, "", false
			a.Metrics.setExpiry(expires)
		}
		renewal := time.After(next)
		if !expires.IsZero() && time.Until(expires) <= next {
			if !sleep(ctx, time.After(time.Until(expires))) {
				return
			}
			expires = a.removeExpired(expires)
		}
		if !sleep(ctx, renewal) {
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
		if !sleep(ctx, time.After(retryDelay(err, failures, a.Random()))) {
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

// removeExpired removes the file if its token has expired, because a reader would rather see that there is no token
// than present one that every API rejects. It returns when the token in the file expires, or zero if there is none.
func (a *Agent) removeExpired(expires time.Time) time.Time {
	if expires.IsZero() || time.Now().Before(expires) {
		return expires
	}
	a.Metrics.setExpiry(time.Time{})
	expired := expires.UTC().Format(time.RFC3339)
	if a.KeepExpired {
		a.Logger.Error("The token in the file has expired", "expired", expired)
	} else if err := a.File.Remove(); err != nil {
		a.Logger.Error("Failed to remove the expired token", "expired", expired, "error", err)
	} else {
		a.Logger.Error("Removed the token because it has expired", "expired", expired)
	}
	return time.Time{}
}

// sleep returns whether the timer fired before ctx was done.
func sleep(ctx context.Context, timer <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-timer:
		return true
	}
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

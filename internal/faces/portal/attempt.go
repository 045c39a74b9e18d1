package portal

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/serve/source"
)

var (
	// errThrottled means that too many sign-ins from the same source have failed.
	errThrottled = errors.New("too many failed sign-ins")
	// errIdentify means that the API server didn't identify the user.
	errIdentify = errors.New("API server did not identify the user")
)

// attempt runs a step of a sign-in. If too many sign-ins from the same source have failed, it returns
// errThrottled and sends no request to the API server or the issuer.
func (p *portal) attempt(r *http.Request, step func(context.Context) error) error {
	// A browser in which a user has signed in before has its own limit. Otherwise an attacker could
	// keep out all users behind the same address.
	by := ratelimit.Attempt{Client: p.Sessions.KnownBrowser(r), Source: source.Of(r, p.TrustedProxies)}
	if !p.failures.Count(by, p.Now()) {
		return errThrottled
	}
	ctx, stop := context.WithTimeout(r.Context(), p.Timeout)
	defer stop()
	err := step(ctx)
	// All other errors count as failures, even if the browser disconnected before the response.
	if err == nil || errors.Is(err, access.ErrBusy) {
		p.failures.Undo(by)
	}
	return err
}

// signInResult is how an attempt to sign in ended.
type signInResult struct {
	label   string // of the metric
	outcome audit.Outcome
	reason  audit.Reason
	// status is the HTTP status of the sign-in page, and problem is the message that it shows.
	status  int
	problem string
}

func signInResultOf(err error) signInResult {
	switch {
	case err == nil:
		return signInResult{label: signInAccepted, outcome: audit.Granted}
	case errors.Is(err, errThrottled):
		return signInResult{
			signInThrottled, audit.Refused, audit.ReasonTooManyFailures, http.StatusTooManyRequests,
			"Too many sign-ins from your network have failed. Wait a few seconds and try again.",
		}
	case errors.Is(err, access.ErrBusy):
		return signInResult{
			signInFailed, audit.Failed, audit.ReasonBusy, http.StatusServiceUnavailable,
			"Too many sign-ins are in progress. Wait a few seconds and try again.",
		}
	case errors.Is(err, access.ErrNoToken), errors.Is(err, access.ErrTokenTooLong), errors.Is(err, access.ErrTokenForm):
		return signInResult{signInRejected, audit.Refused, audit.ReasonNoCredentials, http.StatusUnprocessableEntity, sentence(err)}
	case errors.Is(err, access.ErrSignIn):
		return signInResult{signInRejected, audit.Refused, audit.ReasonSignInRejected, http.StatusForbidden, sentence(err)}
	case apierrors.IsUnauthorized(err):
		return signInResult{
			signInRejected, audit.Refused, audit.ReasonTokenRejected, http.StatusUnauthorized,
			"Kubernetes rejected this token. It may have expired or belong to another cluster.",
		}
	case errors.Is(err, errIdentify):
		return signInResult{
			signInFailed, audit.Failed, audit.ReasonAPIServer, http.StatusBadGateway,
			"The Kubernetes API server is unavailable. Try again later.",
		}
	case errors.Is(err, access.ErrIssuer):
		return signInResult{
			signInFailed, audit.Failed, audit.ReasonIssuer, http.StatusBadGateway,
			"The identity provider is unavailable or returned an invalid response. Try again later or use a Kubernetes token.",
		}
	}
	return signInResult{
		signInFailed, audit.Failed, audit.ReasonServerError, http.StatusInternalServerError,
		"The session could not be created. See the portal log.",
	}
}

// endSignIn audits and counts a sign-in, and shows the result.
func (p *portal) endSignIn(w http.ResponseWriter, r *http.Request, user access.User, err error) {
	result := signInResultOf(err)
	p.metrics.signIns.WithLabelValues(result.label).Inc()
	p.Audit.Write(audit.Event{
		Time: p.Now(), Action: audit.ActionSignIn, Outcome: result.outcome, Reason: result.reason,
		Actor: user.Name, Source: source.Of(r, p.TrustedProxies),
	})
	if err == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if result.label == signInFailed && result.reason != audit.ReasonBusy {
		p.Logger.Error("Sign-in failed", "error", err)
	}
	if result.status == http.StatusTooManyRequests || result.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(ratelimit.FailureInterval.Seconds())))
	}
	p.renderSignIn(w, result.status, result.problem)
}

func (p *portal) auditSignOut(r *http.Request, user access.User) {
	p.Audit.Write(audit.Event{
		Time: p.Now(), Action: audit.ActionSignOut, Outcome: audit.Granted, Actor: user.Name, Source: source.Of(r, p.TrustedProxies),
	})
}

package portal

import (
	"log/slog"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// change is what a person wants to do to a client, and what came of it, for the audit stream.
type change struct {
	action   string // such as create
	client   *v1alpha1.ApiClient
	secretID string // of the secret that was made or ended; empty: none
}

// audit writes the line of a change. It holds no secret and no token.
func (p *portal) audit(v *visit, c change, err error) {
	outcome, reason := "changed", ""
	if err != nil {
		outcome, reason = "refused", reasonOf(err)
	}
	p.Audit.LogAttrs(v.ctx(), slog.LevelInfo, "Credential change",
		slog.String("person", v.session.Person.Name), slog.String("person_uid", v.session.Person.UID),
		slog.String("action", c.action), slog.String("outcome", outcome), slog.String("reason", reason),
		slog.String("realm", c.client.Spec.RealmRef.Name), slog.String("client_id", c.client.EffectiveClientID()),
		slog.String("namespace", c.client.Namespace), slog.String("name", c.client.Name),
		slog.String("client_uid", string(c.client.UID)), slog.String("secret_id", c.secretID),
		slog.String("source", v.r.RemoteAddr))
}

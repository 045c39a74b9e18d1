package inspect

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

// realmReport describes what a Realm allows, and its signing keys.
type realmReport struct {
	Issuer                string                  `json:"issuer,omitempty"`
	TokenEndpoint         string                  `json:"tokenEndpoint,omitempty"`
	TokenLifetime         string                  `json:"tokenLifetime,omitempty"`
	TokensValidAfterTime  *metav1.Time            `json:"tokensValidAfterTime,omitempty"`
	Scopes                []string                `json:"scopes,omitempty"`
	Audiences             []string                `json:"audiences,omitempty"`
	Claims                []string                `json:"claims,omitempty"`
	AllowedClaims         []string                `json:"allowedClaims,omitempty"`
	TrustedIssuers        []string                `json:"trustedIssuers,omitempty"`
	Grants                []v1beta1.Grant         `json:"grants"`
	Exchanges             []describe.ExchangeRule `json:"exchanges,omitempty"`
	SigningKeys           []signingKeyReport      `json:"signingKeys,omitempty"`
	NextKeyTransitionTime *metav1.Time            `json:"nextKeyTransitionTime,omitempty"`
	ManagedBy             string                  `json:"managedBy,omitempty"`
}

// signingKeyReport is a signing key of a Realm.
type signingKeyReport struct {
	KeyID          string       `json:"keyID"`
	Algorithm      string       `json:"algorithm"`
	State          string       `json:"state"`
	ActivationTime *metav1.Time `json:"activationTime,omitempty"`
	RemovalTime    *metav1.Time `json:"removalTime,omitempty"`
}

func newRealmReport(t *cluster.Target) *realmReport {
	realm := t.Realm
	r := &realmReport{
		Issuer: realm.Status.Issuer, TokenEndpoint: realm.Status.TokenEndpoint, TokenLifetime: describe.Duration(realm.Status.TokenLifetime),
		TokensValidAfterTime: realm.Spec.TokensValidAfterTime, Scopes: realm.Spec.Scopes, Audiences: realm.Spec.Audiences,
		Grants: realm.Spec.Grants, Exchanges: describe.ExchangeRules(realm), NextKeyTransitionTime: realm.Status.NextKeyTransitionTime, ManagedBy: t.ManagedBy(),
	}
	for _, c := range realm.Spec.Claims {
		r.Claims = append(r.Claims, string(c.Name))
	}
	for _, name := range realm.Spec.AllowedClaims {
		r.AllowedClaims = append(r.AllowedClaims, string(name))
	}
	for i := range realm.Spec.TrustedIssuers {
		r.TrustedIssuers = append(r.TrustedIssuers, realm.Spec.TrustedIssuers[i].Name)
	}
	for _, k := range realm.Status.SigningKeys {
		r.SigningKeys = append(r.SigningKeys, signingKeyReport{
			KeyID: k.KeyID, Algorithm: string(k.Algorithm), State: string(k.State), ActivationTime: k.ActivationTime, RemovalTime: k.RemovalTime,
		})
	}
	return r
}

func (r *realmReport) text(w *terminal.Writer, now time.Time) {
	w.Heading("REALM")
	w.Fields([][2]string{
		{"Issuer", r.Issuer},
		{"Token endpoint", r.TokenEndpoint},
		{"Token lifetime", r.TokenLifetime},
		{"Tokens valid after", instantOrEmpty(r.TokensValidAfterTime, now)},
		{"Scopes", output.OrNone(r.Scopes, "none")},
		{"Audiences", output.OrNone(r.Audiences, "the issuer")},
		{"Claims", strings.Join(r.Claims, ", ")},
		{"Allowed claims", strings.Join(r.AllowedClaims, ", ")},
		{"Trusted issuers", strings.Join(r.TrustedIssuers, ", ")},
		{"Managed by", r.ManagedBy},
	})
	w.Heading("GRANTS")
	for i := range r.Grants {
		g := &r.Grants[i]
		w.Fields([][2]string{{g.Name, grantText(g)}})
	}
	if len(r.Exchanges) > 0 {
		w.Heading("EXCHANGES")
	}
	for i := range r.Exchanges {
		w.Fields([][2]string{{r.Exchanges[i].Name, exchangeText(&r.Exchanges[i])}})
	}
	w.Heading("SIGNING KEYS")
	r.keys(w, now)
}

// keys writes the signing keys and the time of the next key change.
func (r *realmReport) keys(w *terminal.Writer, now time.Time) {
	var rows []terminal.Row
	for _, k := range r.SigningKeys {
		change := ""
		switch {
		case k.RemovalTime != nil:
			change = "removed " + terminal.Relative(k.RemovalTime.Time, now)
		case k.ActivationTime != nil && k.State == string(v1beta1.SigningKeyActive):
			change = "for " + strings.TrimSuffix(terminal.Relative(k.ActivationTime.Time, now), " ago")
		}
		rows = append(rows, terminal.Row{Cells: []string{k.KeyID, k.Algorithm, k.State, change}})
	}
	if len(rows) == 0 {
		w.Line(terminal.Plain, "  none")
		return
	}
	w.Table(nil, rows)
	if r.NextKeyTransitionTime != nil {
		w.Line(terminal.Plain, "  The next key change is %s.", terminal.Relative(r.NextKeyTransitionTime.Time, now))
	}
}

// grantText describes a grant in one paragraph.
func grantText(g *v1beta1.Grant) string {
	text := "namespaces: " + describe.Namespaces(&g.Namespaces) + "; scopes: " + output.OrNone(g.Scopes, "none") + "; audiences: " + strings.Join(g.Audiences, ", ")
	if len(g.ClientIDs) > 0 {
		text += "; client IDs: " + strings.Join(g.ClientIDs, ", ")
	}
	if len(g.Issuers) > 0 {
		text += "; issuers: " + strings.Join(g.Issuers, ", ")
	}
	if g.SenderConstraint != "" {
		text += "; sender constraint: " + string(g.SenderConstraint)
	}
	return text
}

package tenancy_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const (
	ciName        = "ci"
	ciURL         = "https://ci.example.com"
	ledgerSubject = "repo:bank/ledger:ref:refs/heads/main" // of a victim
)

// byWorkload makes tokens of the issuer "ci" with a subject the only way in which a client
// authenticates.
func byWorkload(subject string) func(*v1beta1.ApiClient) {
	return func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.Subjects(ciName, subject)
	}
}

func byClaims(claims v1beta1.ClaimMatches) func(*v1beta1.ApiClient) {
	return func(c *v1beta1.ApiClient) {
		c.Spec.Identities = []v1beta1.Identity{{Name: "claims", Issuer: ciName, MatchClaims: claims}}
	}
}

// workload returns a token of the issuer "ci" for the bank.
func (b *bank) workload(t *testing.T, subject string, claims map[string]any) string {
	t.Helper()
	return b.ci.Token(t, b.issuer(bankName), subject, claims)
}

// ready creates an ApiClient as the tenant and waits until it is Ready.
func (b *bank) ready(t *testing.T, u *tenant, name string, change ...func(*v1beta1.ApiClient)) *v1beta1.ApiClient {
	t.Helper()
	c := u.apiClient(name, bankName, "", change...)(t)
	b.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	return c
}

// subjectHolder returns the ApiClient that holds a subject of the issuer "ci" in a realm, or nil.
func subjectHolder(t *testing.T, inst *install.Installation, realm, issuerURL, subject string) (*record.Subject, error) {
	t.Helper()
	r, secret := install.Realm(realm), &corev1.Secret{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: inst.RecordsNamespace, Name: record.SubjectRecordName(r.UID, ciName, issuerURL, subject)}
	if err := inst.Env.Client.Get(t.Context(), key, secret); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	body, err := record.ReadSubject(secret)
	return &body, err
}

// awaitSubject waits until a client holds a subject of the issuer "ci". If the client is nil, it waits
// until the subject has no holder.
func awaitSubject(t *testing.T, inst *install.Installation, realm, subject string, want *v1beta1.ApiClient) {
	t.Helper()
	install.Eventually(t, "the holder of subject "+subject, func() error {
		body, err := subjectHolder(t, inst, realm, ciURL, subject)
		if err != nil || (body == nil) != (want == nil) || want != nil && body.UID != want.UID {
			return fmt.Errorf("it is %+v, %w", body, err)
		}
		return nil
	})
}

// expectSubject checks that a client holds a subject of the issuer "ci" now.
func expectSubject(t *testing.T, inst *install.Installation, realm, subject string, want *v1beta1.ApiClient) {
	t.Helper()
	if body, err := subjectHolder(t, inst, realm, ciURL, subject); err != nil || body == nil || body.UID != want.UID {
		t.Errorf("the holder of %q is %+v, want %s/%s; error %v", subject, body, want.Namespace, want.Name, err)
	}
}

// awaitClientOf waits until every token server issues tokens of a client for a workload's token, in
// both ways to present it. If the client is nil, it waits until they issue none.
func (b *bank) awaitClientOf(t *testing.T, clientID, token string, want *v1beta1.ApiClient) {
	t.Helper()
	for _, s := range b.inst.Servers() {
		install.Eventually(t, s.Name+" to know the client of a token", func() error { return b.clientOf(t, s, clientID, token, want) })
	}
}

func (b *bank) clientOf(t *testing.T, s *install.TokenServer, clientID, token string, want *v1beta1.ApiClient) error {
	t.Helper()
	for _, request := range []func(testing.TB) (install.TokenResponse, error){
		func(t testing.TB) (install.TokenResponse, error) {
			return install.RequestTokenByGrant(t, s, s.Client(t), b.issuer(bankName)+"/oauth2/token", clientID, token)
		},
		func(t testing.TB) (install.TokenResponse, error) {
			return install.RequestTokenByAssertion(t, s, s.Client(t), b.issuer(bankName)+"/oauth2/token", clientID, token)
		},
	} {
		response, err := request(t)
		if err != nil {
			return err
		}
		if response.AccessToken == "" {
			if want != nil {
				return fmt.Errorf("the response is %+v", response)
			}
			continue
		}
		got, err := claimsOf(response.AccessToken)
		if err != nil || want == nil || got.ClientID != want.EffectiveClientID() || got.Identity != string(want.UID) {
			return fmt.Errorf("the token has the claims %+v, %w", got, err)
		}
	}
	return nil
}

// An attacker repeatedly lists the subject of a victim, in new clients and in a changed one. The
// attacker's clients become Ready, but the victim keeps the subject. Requests without a client ID
// still get tokens of the victim's client.
func testForeignSubject(t *testing.T, b *bank) {
	attacker, ledger := newTenant(t, b.inst), b.victims[1]
	b.grant(t, attacker)
	for range 3 {
		c := b.ready(t, attacker, "thief", byWorkload(ledgerSubject))
		scenario.ExpectMessage(t, c, v1beta1.ConditionAccepted, ledgerSubject, ledger.client.Namespace+"/"+ledger.client.Name, "client_id")
		expectSubject(t, b.inst, bankName, ledgerSubject, ledger.client)
		b.awaitClientOf(t, c.EffectiveClientID(), ledger.workload, c)
		b.awaitClientOf(t, "", ledger.workload, ledger.client)
		if err := attacker.Delete(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	// A change of the spec doesn't help the attacker either.
	c := b.ready(t, attacker, "late", byWorkload("repo:attacker/own"))
	install.Change(t, b.inst, c, byWorkload(ledgerSubject))
	awaitSubject(t, b.inst, bankName, "repo:attacker/own", nil)
	b.awaitClientOf(t, "", ledger.workload, ledger.client)
	expectSubject(t, b.inst, bankName, ledgerSubject, ledger.client)
}

// An attacker lists a subject before its owner does. The owner's requests must then send the client
// ID, as the owner's status says, and get tokens of the owner's client.
func testSquattedSubject(t *testing.T, b *bank) {
	const subject = "repo:bank/squatted"
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	// Without a grant, the attacker's client doesn't hold the subject, although it is older.
	early := attacker.apiClient("early", bankName, "", byWorkload(subject))(t)
	expectRejected(t, b.inst, early, v1beta1.ReasonNamespaceNotAllowed)
	awaitSubject(t, b.inst, bankName, subject, nil)
	b.grant(t, owner)
	first := b.ready(t, owner, "first", byWorkload(subject))
	expectSubject(t, b.inst, bankName, subject, first)

	b.grant(t, attacker)
	b.inst.AwaitReady(t, early, metav1.ConditionTrue, v1beta1.ReasonReady)
	expectSubject(t, b.inst, bankName, subject, first)
	squatter := b.ready(t, attacker, "squatter", byWorkload(subject+"-2"))
	second := b.ready(t, owner, "second", byWorkload(subject+"-2"))
	scenario.ExpectMessage(t, second, v1beta1.ConditionAccepted, attacker.namespace+"/squatter", "client_id")
	b.awaitClientOf(t, second.EffectiveClientID(), b.workload(t, subject+"-2", nil), second)
	b.awaitClientOf(t, "", b.workload(t, subject+"-2", nil), squatter)
}

// An attacker matches claims of another tenant's repository. Claims alone never select a client. The
// client ID in the workload's request does.
func testForeignClaims(t *testing.T, b *bank) {
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	b.grant(t, attacker)
	b.grant(t, owner)
	shop := v1beta1.ClaimMatches{{Name: "repository", Value: "bank/shop"}}
	squatter := b.ready(t, attacker, "squatter", byClaims(shop))
	own := b.ready(t, owner, "shop", byClaims(v1beta1.ClaimMatches{{Name: "repository", Value: "bank/shop"}, {Name: "environment", Value: "production"}}))
	token := b.workload(t, "repo:bank/shop:environment:production", map[string]any{"repository": "bank/shop", "environment": "production"})
	b.awaitClientOf(t, own.EffectiveClientID(), token, own)
	b.awaitClientOf(t, squatter.EffectiveClientID(), token, squatter)
	b.awaitClientOf(t, "", token, nil)
	// The victim keeps its subject, even if its token has the claims that the squatter lists.
	ledger := b.victims[1]
	b.awaitClientOf(t, "", b.workload(t, ledgerSubject, map[string]any{"repository": "bank/shop"}), ledger.client)
	for name, token := range map[string]string{
		"another environment": b.workload(t, "x", map[string]any{"repository": "bank/shop", "environment": "test"}),
		"a list":              b.workload(t, "x", map[string]any{"repository": []string{"bank/shop"}, "environment": "production"}),
		"claims missing":      b.workload(t, "repo:bank/shop:environment:production", nil),
		"subject of a victim": b.workload(t, ledgerSubject, nil),
	} {
		for _, s := range b.inst.Servers() {
			if err := b.clientOf(t, s, own.EffectiveClientID(), token, nil); err != nil {
				t.Errorf("%s, %s: %v", s.Name, name, err)
			}
		}
	}
}

// A holder that loses its grant gets no tokens, but it keeps the subject even if an attacker lists
// it.
func testSubjectAfterLostGrant(t *testing.T, b *bank) {
	const subject = "repo:bank/kept"
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	b.grant(t, attacker)
	b.grant(t, owner)
	kept := b.ready(t, owner, "kept", byWorkload(subject))
	token := b.workload(t, subject, nil)
	b.awaitClientOf(t, "", token, kept)
	b.ready(t, attacker, "waiting", byWorkload(subject))

	b.revoke(t, owner)
	b.inst.AwaitReady(t, kept, metav1.ConditionFalse, v1beta1.ReasonNamespaceNotAllowed)
	b.awaitClientOf(t, "", token, nil)
	b.ready(t, attacker, "after", byWorkload(subject))
	expectSubject(t, b.inst, bankName, subject, kept)
	b.awaitClientOf(t, "", token, nil)
	b.grant(t, owner)
	b.inst.AwaitReady(t, kept, metav1.ConditionTrue, v1beta1.ReasonReady)
	b.awaitClientOf(t, "", token, kept)
}

// Deleting a client frees its subject, but only for clients that a grant covers. A new client with
// the same name is a different holder.
func testRecreatedSubjectHolder(t *testing.T, b *bank) {
	const subject = "repo:bank/recreated"
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	b.grant(t, owner)
	before := b.ready(t, owner, "recreated", byWorkload(subject))
	token := b.workload(t, subject, nil)
	expectRejected(t, b.inst, attacker.apiClient("waiting", bankName, "", byWorkload(subject))(t), v1beta1.ReasonNamespaceNotAllowed)
	if err := owner.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	after := b.ready(t, owner, "recreated", byWorkload(subject))
	awaitSubject(t, b.inst, bankName, subject, after)
	b.awaitClientOf(t, "", token, after)

	// A granted client inherits the subject, and gives it up when it no longer lists it.
	b.grant(t, attacker)
	heir := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: attacker.namespace, Name: "waiting"}}
	b.inst.AwaitReady(t, heir, metav1.ConditionTrue, v1beta1.ReasonReady)
	expectSubject(t, b.inst, bankName, subject, after)
	if err := owner.Delete(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	awaitSubject(t, b.inst, bankName, subject, heir)
	b.awaitClientOf(t, "", token, heir)
	install.Change(t, b.inst, heir, byWorkload(subject+"-2"))
	awaitSubject(t, b.inst, bankName, subject, nil)
	b.awaitClientOf(t, "", token, nil)
}

// An attacker has all permissions in another realm that trusts the same issuer. It holds the victim's
// subject there, which has no effect in the bank's realm.
func testSubjectInOtherRealm(t *testing.T, b *bank) {
	attacker, ledger := newTenant(t, b.inst), b.victims[1]
	b.inst.Create(t, install.Realm("other-subjects", func(r *v1beta1.Realm) {
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{b.ci.Trusted(t)}
		r.Spec.Grants = []v1beta1.Grant{grantTo("all", attacker, "*")}
	}))
	twin := attacker.apiClient("ledger", "other-subjects", "", byWorkload(ledgerSubject))(t)
	b.inst.AwaitReady(t, twin, metav1.ConditionTrue, v1beta1.ReasonReady)
	expectSubject(t, b.inst, "other-subjects", ledgerSubject, twin)
	expectSubject(t, b.inst, bankName, ledgerSubject, ledger.client)
	for _, s := range b.inst.Servers() {
		for realm, token := range map[string]string{
			bankName:         b.ci.Token(t, b.issuer("other-subjects"), ledgerSubject, nil),
			"other-subjects": ledger.workload,
		} {
			response, err := install.RequestTokenByGrant(t, s, s.Client(t), b.issuer(realm)+"/oauth2/token", "", token)
			if err != nil || response.AccessToken != "" {
				t.Errorf("%s accepts a token for another realm: %+v, %v", s.Name, response, err)
			}
		}
	}
}

// The realm administrator renames an issuer or gives its name to another one. A renamed issuer is another
// one, whose subjects are free. Its former name takes no subject from a client, so that a wrong name can be
// corrected. Tokens of one issuer are never accepted as tokens of the other.
func testRepointedIssuer(t *testing.T, b *bank) {
	const realm, subject = "repointed", "repo:bank/repointed"
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	r := install.Realm(realm, func(r *v1beta1.Realm) {
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{b.ci.Trusted(t)}
		r.Spec.Grants = []v1beta1.Grant{grantTo("owner", owner), grantTo("attacker", attacker)}
	})
	b.inst.Create(t, r)
	own := owner.apiClient("own", realm, "", byWorkload(subject))(t)
	b.inst.AwaitReady(t, own, metav1.ConditionTrue, v1beta1.ReasonReady)

	install.Change(t, b.inst, r, func(r *v1beta1.Realm) { r.Spec.TrustedIssuers[0].Name = "renamed" })
	b.inst.AwaitReady(t, own, metav1.ConditionFalse, v1beta1.ReasonIssuerNotInRealm)
	thief := attacker.apiClient("thief", realm, "", func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.Subjects("renamed", subject)
	})(t)
	b.inst.AwaitReady(t, thief, metav1.ConditionTrue, v1beta1.ReasonReady)
	expectSubject(t, b.inst, realm, subject, own)

	other := issuer.NewStatic(t, ciName, "https://other.example.com")
	install.Change(t, b.inst, r, func(r *v1beta1.Realm) {
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{other.Trusted(t)}
	})
	b.inst.AwaitReady(t, own, metav1.ConditionTrue, v1beta1.ReasonReady)
	awaitSubject(t, b.inst, realm, subject, nil)
	if body, err := subjectHolder(t, b.inst, realm, other.URL(), subject); err != nil || body == nil || body.UID != own.UID {
		t.Errorf("the holder of the other issuer's subject is %+v: %v", body, err)
	}
	for _, s := range b.inst.Servers() {
		response, err := install.RequestTokenByGrant(t, s, s.Client(t), b.issuer(realm)+"/oauth2/token", own.EffectiveClientID(), b.ci.Token(t, b.issuer(realm), subject, nil))
		if err != nil || response.AccessToken != "" {
			t.Errorf("%s accepts a token of the former issuer: %+v, %v", s.Name, response, err)
		}
	}
}

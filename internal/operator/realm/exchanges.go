package realm

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
)

// recordedExchanges returns the rules for the record.
func recordedExchanges(realm *v1beta1.Realm, issuer string) []record.Exchange {
	var recorded []record.Exchange
	for _, r := range delegation.RulesOf(realm, issuer, record.DigestOfSelector) {
		recorded = append(recorded, record.Exchange{
			Name: r.Name, Actors: record.ClientSelector(r.Actors), Subjects: (*record.ClientSelector)(r.Subjects),
			Issuer: r.Issuer, IDJAG: r.IDJAG, Claims: r.Claims, SubjectAudiences: r.SubjectAudiences, SubjectScopes: r.SubjectScopes,
			Audiences: r.Audiences, Scopes: r.Scopes, MaxDepth: r.MaxDepth, DPoP: r.DPoP,
			TokenLifetimeSeconds: int64(r.TokenLifetime / time.Second), DeniedSubjects: r.DeniedSubjects,
		})
	}
	return recorded
}

// exchangesResolved returns the result for the ExchangesResolved condition. unknownClients are the client IDs in
// the rules, by rule, that no ApiClient in the selected namespaces has.
func exchangesResolved(realm *v1beta1.Realm, issuer string, unknownClients map[string][]string) condition.Result {
	var problems []string
	for i := range realm.Spec.Exchanges {
		rule := &realm.Spec.Exchanges[i]
		add := func(problem string, args ...any) {
			problems = append(problems, fmt.Sprintf("Rule %q in spec.exchanges: ", rule.Name)+fmt.Sprintf(problem, args...))
		}
		if missing := undefined(slices.Concat(rule.Audiences, rule.Subjects.Audiences), realm.Spec.EffectiveAudiences(issuer)); missing != "" {
			add("the realm does not define these audiences: %s. Add them to spec.audiences, or remove them from the rule.", missing)
		}
		if missing := undefined(slices.Concat(rule.Scopes, rule.Subjects.Scopes), realm.Spec.Scopes); missing != "" {
			add("the realm does not define these scopes: %s. Add them to spec.scopes, or remove them from the rule.", missing)
		}
		if from := rule.Subjects.Issuer; from != nil {
			switch trusted := realm.Spec.TrustedIssuer(from.Name); {
			case trusted == nil:
				add("spec.trustedIssuers has no issuer with the name %q. Add it, or correct subjects.issuer.name.", from.Name)
			case !trusted.Accepts(v1beta1.IssuerUse(from.EffectiveUse())):
				add("the tokens of issuer %q are not accepted for it. Add %s to its uses in spec.trustedIssuers, or correct subjects.issuer.use.", from.Name, from.EffectiveUse())
			}
		}
		if unknown := unknownClients[rule.Name]; len(unknown) > 0 {
			add("no ApiClient in the selected namespaces has these client IDs: %s. Create it, or correct clientIDs.", condition.Names(slices.Compact(slices.Sorted(slices.Values(unknown)))))
		}
	}
	if len(problems) > 0 {
		return condition.NotReady(v1beta1.ReasonExchangeNotResolved, first(problems)+" The other parts of the rules work.")
	}
	return condition.Result{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonExchangesResolved, Message: "Everything exists that spec.exchanges refers to."}
}

// maxProblems is the maximum number of bytes of problems in a message. The API server rejects a status with a
// message that is too long.
const maxProblems = 1800

// first joins problems up to maxProblems, at least one, and appends the number of those that it omits.
func first(problems []string) string {
	message := problems[0]
	for i, problem := range problems[1:] {
		if len(message)+len(problem) > maxProblems {
			return fmt.Sprintf("%s Problems that are not listed: %d.", message, len(problems)-1-i)
		}
		message += " " + problem
	}
	return message
}

// undefined returns the listed values that are not among all, sorted, as text.
func undefined(listed, all []string) string {
	missing := slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(listed), func(value string) bool { return slices.Contains(all, value) })))
	return condition.Names(slices.Compact(missing))
}

// unknownClients returns the client IDs in the rules of the Realm, by rule, that none of the ApiClients in the
// selected namespaces has. It doesn't know the labels of namespaces, so that a selector includes every one.
func unknownClients(realm *v1beta1.Realm, clients []v1beta1.ApiClient) map[string][]string {
	namespaces := map[string][]string{} // by client ID
	for i := range realm.Spec.Exchanges {
		for _, id := range listedClientIDs(&realm.Spec.Exchanges[i]) {
			namespaces[id] = nil
		}
	}
	if len(namespaces) == 0 {
		return nil
	}
	for i := range clients {
		id := clients[i].EffectiveClientID()
		if found, listed := namespaces[id]; listed {
			namespaces[id] = append(found, clients[i].Namespace)
		}
	}
	unknown := map[string][]string{}
	for i := range realm.Spec.Exchanges {
		rule := &realm.Spec.Exchanges[i]
		for _, selected := range []*v1beta1.ExchangeClients{&rule.Actors, rule.Subjects.Clients} {
			if selected == nil {
				continue
			}
			for _, id := range selected.ClientIDs {
				if !slices.ContainsFunc(namespaces[id], func(n string) bool { return grants.MayInclude(selected.Namespaces.Granted(), n, nil) }) {
					unknown[rule.Name] = append(unknown[rule.Name], id)
				}
			}
		}
	}
	return unknown
}

func listedClientIDs(rule *v1beta1.Exchange) []string {
	if rule.Subjects.Clients == nil {
		return rule.Actors.ClientIDs
	}
	return slices.Concat(rule.Actors.ClientIDs, rule.Subjects.Clients.ClientIDs)
}

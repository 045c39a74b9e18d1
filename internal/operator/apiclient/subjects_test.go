package apiclient

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// subjectRecord returns the record of a subject that the observed client holds.
func subjectRecord(t *testing.T, seen *observed, of subject, change ...func(*record.Subject)) *corev1.Secret {
	t.Helper()
	body := record.Subject{
		RealmUID: "r1", RealmName: "acme", IssuerName: of.issuerName, Issuer: of.issuer, Subject: of.subject,
		ClientID: seen.client.EffectiveClientID(), UID: seen.client.UID, Namespace: seen.client.Namespace, Name: seen.client.Name,
	}
	for _, f := range change {
		f(&body)
	}
	desired := testkit.Value(recordsecret.ForSubject("records", body))(t)
	return testkit.Value(apply.Convert[corev1.Secret](desired))(t)
}

var (
	onGitHub = subject{"github", githubURL, shop}
	robot    = subject{"kubernetes", "kubernetes", "system:serviceaccount:team:robot"}
)

func ofOther(body *record.Subject) { body.UID, body.Namespace, body.Name = "c2", "other", "thief" }

// unreadable returns a record without its content. Token servers ignore it, so its owner writes it again.
func unreadable(secret *corev1.Secret) *corev1.Secret {
	secret.Data = nil
	return secret
}

// names returns the issuers and subjects of the records that a decision writes.
func names(subjects []record.Subject) []subject {
	var all []subject
	for _, s := range subjects {
		all = append(all, subject{s.IssuerName, s.Issuer, s.Subject})
	}
	return all
}

// An accepted client holds its exact subjects, but none that another client holds and none for
// claims. The record is the same in each case.
func TestDecideSubjects(t *testing.T) {
	seen := observeFederated([]v1beta1.Identity{
		exact("gitlab", shop), exact("github", shop), exact("github", shop), matching("github"),
		account("robot"), account("builder"), account("missing"),
	}, func(s *observed) {
		s.accounts = map[string]types.UID{"robot": "1", "builder": "2"}
	})
	github, gitlab := onGitHub, subject{"gitlab", gitlabURL, shop}
	builder := subject{"kubernetes", "kubernetes", "system:serviceaccount:team:builder"}
	for name, test := range map[string]struct {
		records  map[subject]*corev1.Secret
		want     []subject
		wantFree int
		wantNote string
	}{
		"all held":         {map[subject]*corev1.Secret{github: subjectRecord(t, &seen, onGitHub), gitlab: subjectRecord(t, &seen, gitlab)}, []subject{github, gitlab, builder, robot}, 2, ""},
		"all free":         {nil, []subject{github, gitlab, builder, robot}, 4, ""},
		"held by another":  {map[subject]*corev1.Secret{github: subjectRecord(t, &seen, onGitHub, ofOther)}, []subject{gitlab, builder, robot}, 3, `"` + shop + `" (other/thief).`},
		"unreadable":       {map[subject]*corev1.Secret{github: unreadable(subjectRecord(t, &seen, onGitHub))}, []subject{github, gitlab, builder, robot}, 3, ""},
		"another's, too":   {map[subject]*corev1.Secret{github: unreadable(subjectRecord(t, &seen, onGitHub, ofOther))}, []subject{gitlab, builder, robot}, 3, `"` + shop + `" (other/thief).`},
		"held by a former": {map[subject]*corev1.Secret{github: subjectRecord(t, &seen, onGitHub, func(b *record.Subject) { b.UID = "c0" })}, []subject{gitlab, builder, robot}, 3, "(team/billing)."},
	} {
		t.Run(name, func(t *testing.T) {
			seen := seen
			seen.subjects, seen.subjectHolders = nil, nil
			for s, secret := range test.records {
				seen.setSubject(s, secret)
			}
			free := len(seen.unknownSubjects())
			_, d := settled(t, seen, now)
			if diff := cmp.Diff(test.want, names(d.subjects), cmp.AllowUnexported(subject{})); diff != "" || free != test.wantFree {
				t.Errorf("%d subjects are free, want %d; subjects (-want +got):\n%s", free, test.wantFree, diff)
			}
			if len(d.desired.Identities) != 6 {
				t.Errorf("the record has the identities %v", d.desired.Identities)
			}
			if !strings.HasSuffix(d.accepted.Message, test.wantNote) || (test.wantNote == "") == strings.Contains(d.accepted.Message, "client_id") {
				t.Errorf("message %q, want %q", d.accepted.Message, test.wantNote)
			}
		})
	}
}

// A client that is not Accepted or whose record is blocked acquires no subject.
func TestDecideAcquiresNoSubject(t *testing.T) {
	for name, disturb := range map[string]func(*observed){
		"not granted":       func(s *observed) { s.realm.Spec.Grants[0].Issuers = []string{"gitlab"} },
		"invalid scope":     func(s *observed) { s.client.Spec.Scopes = []string{"write"} },
		"ID held":           func(s *observed) { s.holder = types.NamespacedName{Namespace: "other", Name: "z"} },
		"record unreadable": func(s *observed) { s.unreadable = notReady(v1beta1.ReasonRecordUnreadable, "damaged") },
	} {
		t.Run(name, func(t *testing.T) {
			d, err := decide(new(observeFederated([]v1beta1.Identity{exact("github", shop)}, disturb)), now, rand.Reader)
			if err != nil || len(d.subjects) > 0 {
				t.Errorf("the client acquires %v, error %v", names(d.subjects), err)
			}
		})
	}
}

// pointers returns pointers to copies of Secrets.
func pointers(secrets []corev1.Secret) []*corev1.Secret {
	var copies []*corev1.Secret
	for i := range secrets {
		copies = append(copies, secrets[i].DeepCopy())
	}
	return copies
}

// A client gives up a subject if its spec no longer lists the subject, or if the client is released. It
// keeps the others, even if it loses its grant or the issuer is renamed.
func TestObsoleteSubjects(t *testing.T) {
	federated := []v1beta1.Identity{exact("github", shop), account("robot")}
	seen := observeFederated(federated)
	held := []corev1.Secret{
		*subjectRecord(t, &seen, onGitHub), *subjectRecord(t, &seen, robot),
	}
	unreadable := *held[0].DeepCopy()
	unreadable.Data = nil
	for name, test := range map[string]struct {
		own    []corev1.Secret
		change func(*observed)
		want   int
	}{
		"account is deleted": {held, func(s *observed) { s.accounts = nil }, 0},
		"names changed": {held, func(s *observed) {
			for i := range s.client.Spec.Identities {
				s.client.Spec.Identities[i].Name += "-2"
			}
		}, 0},
		"subject removed": {held, func(s *observed) { s.client.Spec.Identities = federated[1:] }, 1},
		"subject of another issuer": {held, func(s *observed) {
			s.client.Spec.Identities = []v1beta1.Identity{exact("gitlab", shop), federated[1]}
		}, 1},
		"claims instead": {held, func(s *observed) {
			s.client.Spec.Identities = []v1beta1.Identity{matching("github"), federated[1]}
		}, 1},
		"no grant":          {held, func(s *observed) { s.realm.Spec.Grants = nil }, 0},
		"issuer renamed":    {held, func(s *observed) { s.realm.Spec.TrustedIssuers[0].Name = "actions" }, 0},
		"issuer re-pointed": {held, func(s *observed) { s.realm.Spec.TrustedIssuers[0].Issuer = "https://github.example.com" }, 1},
		"released":          {held, func(s *observed) { s.live = true; releasedAt(now)(s) }, 2},
		"acquired after a release": {held, func(s *observed) {
			releasedAt(now.Add(-time.Hour))(s)
			for i := range s.subjectsOfName {
				s.subjectsOfName[i].CreationTimestamp = metav1.NewTime(now)
			}
		}, 0},
		"unreadable":       {[]corev1.Secret{unreadable}, func(s *observed) { s.client.Spec.Identities = nil }, 0},
		"realm is deleted": {held, func(s *observed) { s.realm = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observeFederated(federated, func(s *observed) {
				s.accounts, s.subjectsOfName = map[string]types.UID{"robot": "1"}, pointers(test.own)
			}, test.change)
			if d := decided(t, &seen, now); len(d.obsoleteSubjects) != test.want {
				t.Errorf("%d subjects are given up, want %d", len(d.obsoleteSubjects), test.want)
			}
		})
	}
}

// Every listed subject is in the index by which waiting clients are found.
func TestSubjectKeys(t *testing.T) {
	seen := observeFederated([]v1beta1.Identity{
		exact("github", shop), exact("gitlab", shop), matching("github"), account("robot"), account("builder"),
	}, func(s *observed) { s.accounts = map[string]types.UID{"robot": "1", "builder": "2"} })
	want := []string{"acme/" + shop, "acme/system:serviceaccount:team:builder", "acme/system:serviceaccount:team:robot"}
	testkit.Diff(t, "index keys", want, subjectKeys(seen.client))
}

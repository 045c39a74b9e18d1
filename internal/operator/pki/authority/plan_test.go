package authority_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
)

func TestRenewal(t *testing.T) {
	i := generated(t)
	old := i.ca.Current.Leaf
	i.want(t, start.Add(publishAfter-time.Second), "", start.Add(publishAfter))
	i.want(t, start.Add(publishAfter), authority.Published, start.Add(switchAfter))
	next := i.ca.Next.Leaf
	wantBundle(t, i.ca, old, next) // The CA that signs is the first.

	i.want(t, start.Add(switchAfter-time.Second), "", start.Add(switchAfter))
	end := old.NotAfter.Add(time.Second)
	i.want(t, start.Add(switchAfter), authority.Switched, end)
	wantBundle(t, i.ca, next, old)
	if data := secretOf(t, i.ca).Data; len(data["next.key"]) > 0 || bytes.Count(data["tls.key"], []byte("PRIVATE KEY-----")) != 2 {
		t.Error("the old private key is kept")
	}
	i.want(t, end, "", next.NotAfter.Add(-90*day-365*day))
	wantBundle(t, i.ca, next)
}

func wantBundle(t *testing.T, a *authority.Authority, want ...*x509.Certificate) {
	t.Helper()
	if !slices.EqualFunc(a.Bundle(), want, (*x509.Certificate).Equal) {
		t.Errorf("the bundle has %d certificates in another order, want %d", len(a.Bundle()), len(want))
	}
}

// Plans have the precision of seconds, so the next one is never due before now.
func TestFractionsOfSeconds(t *testing.T) {
	short := authority.Policy{Hosts: policy.Hosts, Lifetime: 30 * time.Second, Overlap: 3333 * time.Millisecond, ServingLifetime: 7500 * time.Millisecond}
	var ca *authority.Authority
	count := map[authority.Step]int{}
	for now, n := start, 0; n < 20; n++ {
		now = now.Add(300 * time.Millisecond)
		p := testkit.Value(authority.Make(now, ca, short, rand.Reader))(t)
		if !p.Next.After(now) {
			t.Fatalf("at %s the next plan is due at %s", now, p.Next)
		}
		ca, now = p.Authority, p.Next
		count[p.Step]++
	}
	if count[authority.Switched] < 2 || count[authority.Expired] > 0 {
		t.Errorf("steps %v", count)
	}
}

// An operator that was down catches up without skipping the publication, and gives clients as much of
// the overlap as the old CA is still valid.
func TestLatePlan(t *testing.T) {
	for name, test := range map[string]struct {
		at, overlap time.Duration
		want        []authority.Step
	}{
		"after the switch":     {switchAfter + 30*day, 30 * day, []authority.Step{authority.Published, authority.Switched}},
		"hours before the end": {3650*day - 3*time.Hour, 90 * time.Minute, []authority.Step{authority.Published, authority.Switched}},
		"in the last second":   {3650 * day, time.Second, []authority.Step{authority.Published, authority.Expired}},
		"expired":              {3650*day + time.Second, 0, []authority.Step{authority.Expired}},
	} {
		t.Run(name, func(t *testing.T) {
			i := generated(t)
			at := start.Add(test.at)
			var got []authority.Step
			for len(got) < len(test.want) {
				p := i.plan(t, at)
				if overlap := p.Next.Sub(at); p.Step == authority.Published && overlap != test.overlap {
					t.Errorf("the overlap lasts %s, want %s", overlap, test.overlap)
				}
				got, at = append(got, p.Step), p.Next
			}
			testkit.Diff(t, "steps", test.want, got)
		})
	}
	t.Run("expired while the next CA is published", func(t *testing.T) {
		i := published(t)
		next := i.ca.Next.Leaf
		if p := i.plan(t, start.Add(3651*day)); p.Step != authority.Expired || !p.Current.Leaf.Equal(next) {
			t.Errorf("step %q, the next CA signs: %t", p.Step, p.Current.Leaf.Equal(next))
		}
	})
}

// The operator generated a CA, or made the next one sign, while the clock was in the future. After the
// clock is correct again, the CA isn't valid yet, and another one signs immediately. A next CA that was
// generated then is dropped.
func TestClockReturnsFromFuture(t *testing.T) {
	for name, test := range map[string]struct {
		jumps []time.Duration
		want  authority.Step
	}{
		"generated":            {[]time.Duration{-30 * day}, authority.NotYetValid},
		"past the publication": {[]time.Duration{publishAfter, time.Minute}, ""},
		"past the switch":      {[]time.Duration{publishAfter, switchAfter, time.Minute}, authority.NotYetValid},
	} {
		t.Run(name, func(t *testing.T) {
			i := generated(t)
			var p authority.Plan
			for _, jump := range test.jumps {
				p = i.plan(t, start.Add(jump))
			}
			now := start.Add(test.jumps[len(test.jumps)-1])
			if leaf := p.Current.Leaf; p.Step != test.want || now.Before(leaf.NotBefore) || p.Authority.Next != nil {
				t.Errorf("step %q, want %q; the CA is valid from %s, and the next one is kept: %t", p.Step, test.want, leaf.NotBefore, p.Authority.Next != nil)
			}
		})
	}
}

func TestUnusableCA(t *testing.T) {
	for name, ca := range map[string]*pki.CA{
		"a user's CA for other names": usersCA(t, start, 1000*day, "www.example.org"),
		"a CA that isn't valid yet":   usersCA(t, start.Add(day), 100*day),
	} {
		if _, err := authority.Make(start, &authority.Authority{Current: ca}, policy, rand.Reader); !errors.Is(err, authority.ErrUnusable) {
			t.Errorf("%s: error %v, want %v", name, err, authority.ErrUnusable)
		}
	}
}

// Certificates that a user adds to the bundle stay there until they expire. Others than those of CAs
// are removed.
func TestCertificatesOfUser(t *testing.T) {
	i := generated(t)
	own := usersCA(t, start, 100*day)
	serving := testkit.Value(own.Issue(policy.Hosts, 50*day, start, rand.Reader))(t)
	leaf := testkit.Value(serving.Parse())(t)
	i.ca.Previous = []*x509.Certificate{leaf, own.Leaf, i.ca.Current.Leaf}
	i.want(t, start, "", start.Add(100*day+time.Second))
	wantBundle(t, i.ca, i.ca.Current.Leaf, own.Leaf)
	i.plan(t, start.Add(101*day))
	wantBundle(t, i.ca, i.ca.Current.Leaf)
}

func TestDecode(t *testing.T) {
	for name, change := range map[string]func(*corev1.Secret){
		"Opaque":              func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"another key":         func(s *corev1.Secret) { s.Data["tls.key"] = s.Data["next.key"] },
		"no next certificate": func(s *corev1.Secret) { delete(s.Data, "next.crt") },
		"damaged previous":    func(s *corev1.Secret) { s.Data["previous.crt"] = []byte("x") },
	} {
		secret := secretOf(t, published(t).ca)
		change(secret)
		a, err := authority.Decode(secret)
		if a != nil || !errors.Is(err, authority.ErrUnusable) || !strings.Contains(err.Error(), "realmkeeper-ca") {
			t.Errorf("%s: error %v, want %v with the name of the Secret", name, err, authority.ErrUnusable)
		}
	}
}

const day = 24 * time.Hour

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	policy = authority.Policy{Hosts: []string{"api.example.com"}, Lifetime: 3650 * day, Overlap: 365 * day, ServingLifetime: 90 * day}
)

const (
	switchAfter  = (3650 - 90) * day
	publishAfter = switchAfter - 365*day
)

// usersCA returns a CA that the operator didn't generate.
func usersCA(t testing.TB, at time.Time, lifetime time.Duration, hosts ...string) *pki.CA {
	t.Helper()
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		NotBefore: at, NotAfter: at.Add(lifetime), PermittedDNSDomains: hosts,
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Example CA"}, IsCA: true, BasicConstraintsValid: true,
	}
	der := testkit.Value(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	encoded := testkit.Value(x509.MarshalPKCS8PrivateKey(key))(t)
	ca := testkit.Value(pki.ParseCA(pki.Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}))(t)
	return ca
}

// instance is an instance with a CA, as its operator reads it.
type instance struct{ ca *authority.Authority }

// plan plans and writes the CA. Planning again must change nothing.
func (i *instance) plan(t testing.TB, at time.Time) authority.Plan {
	t.Helper()
	p := testkit.Value(authority.Make(at, i.ca, policy, rand.Reader))(t)
	i.ca = stored(t, p.Authority)
	again := testkit.Value(authority.Make(at, i.ca, policy, rand.Reader))(t)
	if diff := cmp.Diff(secretOf(t, p.Authority).Data, secretOf(t, again.Authority).Data); diff != "" {
		t.Fatalf("step %q: planning again, step %q, changes the CA (-once +twice):\n%s", p.Step, again.Step, diff)
	}
	if !p.Next.After(at) {
		t.Fatalf("at %s the next change is at %s", at, p.Next)
	}
	return p
}

// want plans and checks the step, and the time of the next one.
func (i *instance) want(t testing.TB, at time.Time, step authority.Step, next time.Time) authority.Plan {
	t.Helper()
	p := i.plan(t, at)
	if p.Step != step || !p.Next.Equal(next) {
		t.Fatalf("at %s: step %q and next at %s, want %q and %s", at, p.Step, p.Next, step, next)
	}
	return p
}

// secretOf returns the Secret with a CA.
func secretOf(t testing.TB, a *authority.Authority) *corev1.Secret {
	t.Helper()
	return testkit.Value(apply.Convert[corev1.Secret](a.Secret("system", nil)))(t)
}

// stored returns a CA after it was written and read.
func stored(t testing.TB, a *authority.Authority) *authority.Authority {
	t.Helper()
	return testkit.Value(authority.Decode(secretOf(t, a)))(t)
}

func generated(t testing.TB) *instance {
	t.Helper()
	i := &instance{}
	i.want(t, start, authority.Generated, start.Add(publishAfter))
	return i
}

func published(t testing.TB) *instance {
	t.Helper()
	i := generated(t)
	i.want(t, start.Add(publishAfter), authority.Published, start.Add(switchAfter))
	return i
}

// staticCache is a cache with the objects of a reader.
type staticCache struct {
	cache.Cache // nil: not used

	objects client.Reader
}

func (c staticCache) Get(ctx context.Context, key types.NamespacedName, into client.Object, options ...client.GetOption) error {
	return c.objects.Get(ctx, key, into, options...)
}

func TestReaderReturnsTheBundle(t *testing.T) {
	i := published(t)
	bundle := string(pki.Encode(i.ca.Bundle()))
	changed := func(change func(*corev1.Secret)) *corev1.Secret {
		secret := secretOf(t, i.ca)
		change(secret)
		return secret
	}
	valid := changed(func(*corev1.Secret) {})
	for name, test := range map[string]struct {
		cached, live *corev1.Secret
		want         string
	}{
		"a CA that a user created":           {live: valid, want: bundle},
		"a CA that cannot sign":              {cached: changed(func(s *corev1.Secret) { s.Data["tls.key"] = []byte("x") })},
		"a CA whose next one cannot be read": {cached: changed(func(s *corev1.Secret) { s.Data["next.crt"] = []byte("x") })},
	} {
		t.Run(name, func(t *testing.T) {
			reader := authority.NewReader(staticCache{objects: with(t, test.cached)}, with(t, test.live), "system")
			for range 2 { // The second time, the Secret has been decoded.
				got, err := reader.Bundle(t.Context())
				if err != nil || string(got) != test.want {
					t.Errorf("%q, error %v, want %q", got, err, test.want)
				}
			}
		})
	}
}

func TestReaderFollowsTheCA(t *testing.T) {
	i := generated(t)
	objects := with(t, secretOf(t, i.ca))
	reader := authority.NewReader(staticCache{objects: objects}, objects, "system")
	before, _ := reader.Bundle(t.Context())
	i.plan(t, start.Add(publishAfter))
	secret := secretOf(t, i.ca)
	testkit.Do(t, objects.Update(t.Context(), secret))
	after, err := reader.Bundle(t.Context())
	if want := pki.Encode(i.ca.Bundle()); err != nil || !bytes.Equal(after, want) || bytes.Equal(after, before) {
		t.Errorf("the bundle is %q, error %v, want %q", after, err, want)
	}
}

// with returns a client with at most one Secret.
func with(t *testing.T, secret *corev1.Secret) client.Client {
	t.Helper()
	builder := fake.NewClientBuilder()
	if secret != nil {
		secret = secret.DeepCopy()
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: "system", Name: authority.SecretName}
		builder = builder.WithObjects(secret)
	}
	return builder.Build()
}

func TestChangedHosts(t *testing.T) {
	i := published(t)
	renamed := policy
	renamed.Hosts = []string{"api.example.org"}
	p := testkit.Value(authority.Make(start.Add(publishAfter+day), i.ca, renamed, rand.Reader))(t)
	if p.Step != authority.Renamed || !pki.Permits(p.Current.Leaf, renamed.Hosts) || p.Authority.Next != nil {
		t.Errorf("step %q", p.Step)
	}
	wantBundle(t, p.Authority, p.Current.Leaf, i.ca.Current.Leaf)
}

// The CA of a user is renewed like a generated one. If it lives shorter, so do the overlap and the
// reserve.
func TestUsersCA(t *testing.T) {
	i := &instance{ca: &authority.Authority{Current: usersCA(t, start, 60*day)}}
	i.want(t, start, "", start.Add(30*day))
	i.want(t, start.Add(30*day), authority.Published, start.Add(45*day))
	i.want(t, start.Add(45*day), authority.Switched, start.Add(60*day+time.Second))
}

// Workloads can use the Service's full name in a cluster with any domain. A CA that was generated for
// another domain is replaced immediately, because its name constraints don't permit the new name.
func TestClusterDomain(t *testing.T) {
	const service = "realmkeeper-token-server.system.svc"
	policyFor := func(line string) authority.Policy {
		i := testkit.Value(config.Parse([]byte("apiVersion: config.realmkeeper.dev/v1beta1\nkind: InstanceConfiguration\n" +
			"instanceDomain: example.com\nsecurity: {defaultTokenLifetime: 5m}\n" + line)))(t)
		i.SystemNamespace = "system"
		return authority.PolicyOf(i)
	}
	usual, other := policyFor(""), policyFor("clusterDomain: k8s.example\n")
	testkit.Diff(t, "hosts", []string{"api.example.com", service, service + ".k8s.example", "realmkeeper-token-server"}, other.Hosts)

	old := testkit.Value(authority.Make(start, nil, usual, rand.Reader))(t)
	changed := testkit.Value(authority.Make(start, old.Authority, other, rand.Reader))(t)
	testkit.Diff(t, "step", authority.Renamed, changed.Step)
	for name, test := range map[string]struct {
		plan   authority.Plan
		policy authority.Policy
		want   map[string]bool
	}{
		"cluster.local": {old, usual, map[string]bool{service: true, service + ".cluster.local": true, service + ".k8s.example": false}},
		"k8s.example":   {changed, other, map[string]bool{service: true, service + ".cluster.local": false, service + ".k8s.example": true}},
	} {
		t.Run(name, func(t *testing.T) {
			for host, want := range test.want {
				testkit.Diff(t, "the CA permits "+host, want, pki.Permits(test.plan.Current.Leaf, []string{host}))
			}
			serving := testkit.Value(test.plan.Current.Issue(test.policy.Hosts, day, start, rand.Reader))(t)
			leaf := testkit.Value(serving.Parse())(t)
			roots := x509.NewCertPool()
			roots.AddCert(test.plan.Current.Leaf)
			for host, want := range test.want {
				_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: start})
				testkit.Diff(t, "a client accepts the certificate for "+host, want, err == nil)
			}
		})
	}
}

//go:build scale

package scale_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
	"github.com/realmkeeper/realmkeeper/test/framework/statuslist"
)

const (
	// maxListMemory is how much more memory the operator, and a token server, may use for each ApiClient whose
	// realm has status lists.
	maxListMemory = 4.0 // KiB
	// maxIndexWrites is the number of writes of the operator for each ApiClient when status lists are enabled: its
	// index and its record.
	maxIndexWrites = 2.0
	// maxVersions is how many versions of a list a token server signs in a second.
	maxVersions = 4.5
)

// TestStatusListSizeScale prints the cost of the status list of a realm with many ApiClients: its size, its
// creation, the requests for it, and what happens when all of the clients are suspended at once.
func TestStatusListSizeScale(t *testing.T) {
	cluster := env.Start(t)
	t.Setenv("GOGC", "50") // as in the chart
	inst := scenario.Running(t, cluster)
	t.Cleanup(func() { inst.StopOperator(t) })
	server := inst.Servers()[0]
	_, other := scenario.NewClient(t, inst, "other")
	realm := install.Realm("acme")
	inst.Create(t, realm)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	creating := time.Now()
	namespace := create(t, inst, realm.Name, *size, 0)
	t.Logf("%d ApiClients are Ready after %s", *size, time.Since(creating).Round(time.Second))
	awaitHeartbeats(t, inst, 2)
	operatorBefore, serverBefore := memory(t, inst), residentMemory(t, server)

	writes, began := operatorWrites(t, inst), time.Now()
	install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.StatusList.Enabled = true })
	awaitIndexes(t, inst, *size)
	took := time.Since(began)
	awaitHeartbeats(t, inst, 2)
	each := float64(operatorWrites(t, inst)-writes) / float64(*size)
	addRow(t, each <= maxIndexWrites*1.01, fmt.Sprintf("status list enabled for %d ApiClients", *size), fmt.Sprintf("%s, %.2f writes for each", took.Round(time.Second), each), fmt.Sprintf("at most %.0f writes", maxIndexWrites))
	for _, m := range []struct {
		name          string
		before, after float64
	}{{"operator", operatorBefore, memory(t, inst)}, {"token server", serverBefore, residentMemory(t, server)}} {
		more := (m.after - m.before) / float64(*size) / (1 << 10)
		addRow(t, more <= maxListMemory, m.name+", memory with a status list", fmt.Sprintf("%.0f MiB, before %.0f: %.1f KiB more for each", m.after/(1<<20), m.before/(1<<20), more), fmt.Sprintf("at most %.0f KiB more", maxListMemory))
	}

	c := &v1beta1.ApiClient{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "client-0"}, c); err != nil {
		t.Fatal(err)
	}
	l := &listRequests{inst: inst, credentials: inst.CredentialsSecret(t, c)}
	l.uri = statuslist.Of(t, inst.AccessToken(t, l.credentials)).URI
	l.measureSize(t, "all VALID")
	l.measureCreation(t)
	l.measureRate(t)
	l.measureSuspension(t, namespace, inst.CredentialsSecret(t, other))
	l.measureSize(t, "all suspended")
	l.suspendRealm(t)
}

// residentMemory returns the bytes of memory that a token server uses.
func residentMemory(t *testing.T, s *install.TokenServer) float64 {
	return metricOf(t, s, "process_resident_memory_bytes")
}

func metricOf(t *testing.T, s *install.TokenServer, name string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(s.Metric(t, name), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// awaitIndexes waits until the given number of indexes are held.
func awaitIndexes(t *testing.T, inst *install.Installation, number int) {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	cached := &client.ListOptions{Namespace: inst.RecordsNamespace, Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	client.MatchingLabels{v1beta1.RecordLabel: v1beta1.RecordIndex}.ApplyToList(cached)
	for last, changed := -1, time.Now(); last < number; {
		<-time.After(time.Second + time.Duration(number-max(last, 0))*50*time.Microsecond)
		if err := inst.Env.Client.List(t.Context(), list, cached); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != last {
			last, changed = len(list.Items), time.Now()
		}
		if time.Since(changed) > time.Minute {
			t.Fatalf("%d of %d indexes are held, and nothing has changed for a minute", last, number)
		}
	}
}

// listRequests are requests for the list of a realm at the first token server.
type listRequests struct {
	inst        *install.Installation
	credentials *corev1.Secret
	uri         string
}

// measureSize adds the size of the list. It is largest while many clients, at random indexes, are suspended.
func (l *listRequests) measureSize(t *testing.T, state string) {
	t.Helper()
	list, err := statuslist.Get(t.Context(), l.inst.Servers()[0].Client(t), l.uri, l.credentials)
	if err != nil {
		t.Fatal(err)
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	_, _ = io.WriteString(w, list.Document)
	_ = w.Close()
	addRow(t, list.Len() >= *size && list.Len() <= 4**size, fmt.Sprintf("status list of %d ApiClients, %s, size", *size, state),
		fmt.Sprintf("%d entries, lst %d bytes, JWT %d, with gzip %d", list.Len(), len(list.List.List), len(list.Document), compressed.Len()), "the next power of two with room")
}

// get requests the list, and returns its ETag.
func (l *listRequests) get(t testing.TB, httpClient *http.Client, etag string) (string, int, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.uri, http.NoBody)
	if err != nil {
		return "", 0, err
	}
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.Header.Get("ETag"), response.StatusCode, err
}

// measureCreation compares the first requests for a version of the list with the others.
func (l *listRequests) measureCreation(t *testing.T) {
	t.Helper()
	httpClient := l.inst.Servers()[0].Client(t)
	var first, later []time.Duration
	for last := ""; len(first) < 7; <-time.After(20 * time.Millisecond) {
		began := time.Now()
		etag, status, err := l.get(t, httpClient, "")
		took := time.Since(began)
		if err != nil || status != http.StatusOK {
			t.Fatalf("status %d: %v", status, err)
		}
		if last != "" && etag != last {
			first = append(first, took)
		} else if last != "" {
			later = append(later, took)
		}
		last = etag
	}
	slices.Sort(first)
	slices.Sort(later)
	addRow(t, true, "status list, built and signed for the first request", fmt.Sprintf("median %s, longest %s (later requests %s)",
		first[len(first)/2].Round(10*time.Microsecond), first[len(first)-1].Round(10*time.Microsecond), later[len(later)/2].Round(10*time.Microsecond)), "no target")
}

// measureRate measures requests with kept connections, with the processor time of the token server.
func (l *listRequests) measureRate(t *testing.T) {
	t.Helper()
	server := l.inst.Servers()[0]
	for _, test := range []struct {
		name        string
		conditional bool
	}{{"200", false}, {"304", true}} {
		var requests, other atomic.Int64
		var running sync.WaitGroup
		until := time.Now().Add(5 * time.Second)
		spent := metricOf(t, server, "process_cpu_seconds_total")
		for range 2 * runtime.GOMAXPROCS(0) {
			httpClient := server.Client(t)
			running.Go(func() {
				for etag := ""; time.Now().Before(until); {
					sent := ""
					if test.conditional {
						sent = etag
					}
					now, status, err := l.get(t, httpClient, sent)
					if err != nil {
						t.Errorf("requesting the list: %v", err)
						return
					}
					etag = now
					if strconv.Itoa(status) == test.name {
						requests.Add(1)
					} else {
						other.Add(1)
					}
				}
			})
		}
		running.Wait()
		spent = metricOf(t, server, "process_cpu_seconds_total") - spent
		addRow(t, other.Load()*100 <= requests.Load(), "status list, responses "+test.name+" with kept connections",
			fmt.Sprintf("%d per second, %.0f per second and core of the token server", requests.Load()/5, float64(requests.Load()+other.Load())/spent), "no target")
	}
}

// measureSuspension suspends all clients, one by one but as fast as the API server allows. It counts the versions
// of the list, and measures token requests of a client in another realm in the meantime.
func (l *listRequests) measureSuspension(t *testing.T, namespace string, other *corev1.Secret) {
	t.Helper()
	quiet := l.tokenLatency(t, other, func() { <-time.After(5 * time.Second) })
	versions, took := 0, time.Duration(0)
	busy := l.tokenLatency(t, other, func() {
		stop, counted := make(chan struct{}), make(chan int)
		go func() { counted <- l.countVersions(t, stop) }()
		began := time.Now()
		parallel(*size, func(n int) {
			c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("client-%d", n)}}
			if err := l.inst.Env.Client.Patch(t.Context(), c, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))); err != nil {
				t.Errorf("Failed to suspend an ApiClient: %v", err)
			}
		})
		for before, invalid := 0, 0; invalid < *size; before = invalid { // It waits as long as there is progress.
			statuslist.AwaitList(t, l.inst, l.credentials, l.uri, func(list *statuslist.List) error {
				invalid = 0
				for index := range list.Len() {
					invalid += int(list.Status(index))
				}
				if invalid == before {
					return fmt.Errorf("%d of %d are INVALID", invalid, *size)
				}
				return nil
			})
		}
		took = time.Since(began)
		close(stop)
		versions = <-counted
	})
	rate := float64(versions) / took.Seconds()
	addRow(t, rate <= maxVersions, fmt.Sprintf("%d ApiClients suspended one by one, versions of the list", *size), fmt.Sprintf("%d in %s, %.1f per second", versions, took.Round(time.Second), rate), fmt.Sprintf("at most %.0f per second", maxVersions))
	addRow(t, true, "token requests of another realm in the meantime", fmt.Sprintf("median %s, p99 %s (before: %s, %s)", at(busy, 50), at(busy, 99), at(quiet, 50), at(quiet, 99)), "no target")
}

// suspendRealm suspends the realm, which makes all entries INVALID.
func (l *listRequests) suspendRealm(t *testing.T) {
	t.Helper()
	install.Change(t, l.inst, install.Realm("acme"), func(r *v1beta1.Realm) { r.Spec.Suspend = true })
	began := time.Now()
	statuslist.AwaitEnded(t, l.inst, l.credentials, l.uri)
	addRow(t, true, fmt.Sprintf("realm with %d ApiClients suspended, until all entries are INVALID", *size), time.Since(began).Round(10*time.Millisecond).String(), "no target")
}

// at returns a percentile of sorted times.
func at(times []time.Duration, percent int) time.Duration {
	return times[(len(times)-1)*percent/100].Round(10 * time.Microsecond)
}

// countVersions requests the list more often than it can change, and returns how many versions it got.
func (l *listRequests) countVersions(t *testing.T, stop <-chan struct{}) int {
	httpClient := l.inst.Servers()[0].Client(t)
	seen := map[string]bool{}
	for {
		select {
		case <-stop:
			return len(seen)
		case <-time.After(20 * time.Millisecond):
		}
		etag, _, err := l.get(t, httpClient, "")
		if err != nil {
			t.Errorf("requesting the list: %v", err)
			return len(seen)
		}
		seen[etag] = true
	}
}

// tokenLatency returns the sorted times of token requests while do runs.
func (l *listRequests) tokenLatency(t *testing.T, credentials *corev1.Secret, do func()) []time.Duration {
	t.Helper()
	server := l.inst.Servers()[0]
	httpClient := server.Client(t)
	stop, done := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var times []time.Duration
		for {
			select {
			case <-stop:
				done <- times
				return
			case <-time.After(10 * time.Millisecond):
			}
			began := time.Now()
			a, err := install.RequestToken(t, server, httpClient, credentials)
			if err != nil || a.Status != http.StatusOK {
				t.Errorf("status %d %s: %v", a.Status, a.Error, err)
			}
			times = append(times, time.Since(began))
		}
	}()
	do()
	close(stop)
	times := <-done
	slices.Sort(times)
	return times
}

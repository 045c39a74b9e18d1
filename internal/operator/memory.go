package operator

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	v1beta1ac "github.com/realmkeeper/realmkeeper/api/v1beta1/applyconfiguration/api/v1beta1"
)

const (
	// memoryInterval is the time between two checks. Caches that don't fit into the memory fill it within
	// seconds.
	memoryInterval = 200 * time.Millisecond
	// memoryRetry is the time after which a failed write of the condition is repeated, and memoryRepeat that for one
	// that succeeded.
	memoryRetry, memoryRepeat = 5 * time.Second, time.Minute
	// memoryLow and memorySufficient are parts of the limit of the Go runtime. What survives a garbage collection
	// must stay below, because the runtime needs the rest for what it allocates until the next one.
	memoryLow, memorySufficient = 0.8, 0.7
	// memoryOwner is the field manager of the condition. Every operator can write it: one whose memory is too
	// small for its caches doesn't become the leader.
	memoryOwner = v1beta1.FieldOwner + "-memory"
)

// memoryWatch reports in the log and on the Instance that the memory limit is too low, before the kernel kills the
// process, which then can't say why.
type memoryWatch struct {
	client  client.Client // doesn't read from a cache
	pod     string
	synced  func(context.Context) bool // whether the caches are filled; waits until then or the context is done
	clients func() int                 // the number of ApiClients in memory
	live    func() (live, limit int64)

	// low and sufficient are what was last reported. next is when the condition is written again while the memory
	// is low: another operator may have removed it, or the write failed.
	low, sufficient bool
	next            time.Time
}

func (m *memoryWatch) check(ctx context.Context) {
	live, limit := m.live()
	part := float64(live) / float64(limit)
	switch {
	case part >= memoryLow:
		m.reportLow(ctx, live, limit)
	case !m.sufficient && (part < memorySufficient || !m.low) && m.filled(ctx):
		m.sufficient = m.write(ctx, "")
		m.low = m.low && !m.sufficient
	}
}

func (m *memoryWatch) reportLow(ctx context.Context, live, limit int64) {
	clients := m.clients()
	if !m.low {
		m.low, m.sufficient, m.next = true, false, time.Time{}
		ctrl.Log.Info("The memory limit is too low for the number of ApiClients; raise operator.resources.limits.memory, or the operator will be killed",
			"apiClients", clients, "used", live, "limit", limit)
	}
	if time.Now().Before(m.next) {
		return
	}
	message := fmt.Sprintf("The objects in the memory of operator %q take %d of the %d MiB that the Go runtime may use. It is killed when it needs more. "+
		"Raise operator.resources.limits.memory; see \"Sizing\" in the documentation.", m.pod, live>>20, limit>>20)
	if clients > 0 { // The informer has none before its first list is complete.
		message = fmt.Sprintf("The operator serves %d ApiClients. ", clients) + message
	}
	m.next = time.Now().Add(memoryRetry)
	if m.write(ctx, message) {
		m.next = time.Now().Add(memoryRepeat)
	}
}

// filled reports whether the caches are filled now.
func (m *memoryWatch) filled(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, memoryInterval/2)
	defer cancel()
	return m.synced(ctx)
}

// write sets the condition MemorySufficient to False, or removes it if there is no message. It reports whether
// that succeeded.
func (m *memoryWatch) write(ctx context.Context, message string) bool {
	instance := &v1beta1.Instance{}
	err := m.client.Get(ctx, client.ObjectKey{Name: v1beta1.InstanceName}, instance)
	known := meta.FindStatusCondition(instance.Status.Conditions, string(v1beta1.ConditionMemorySufficient))
	if apierrors.IsNotFound(err) || err == nil && message == "" && known == nil {
		return message == ""
	}
	if err == nil {
		status := v1beta1ac.InstanceStatus()
		if message != "" {
			status = status.WithConditions(metav1ac.Condition().WithType(string(v1beta1.ConditionMemorySufficient)).WithStatus(metav1.ConditionFalse).
				WithReason(string(v1beta1.ReasonMemoryLimitTooLow)).WithMessage(message).WithObservedGeneration(instance.Generation).WithLastTransitionTime(metav1.Now()))
		}
		err = m.client.Status().Apply(ctx, v1beta1ac.Instance(v1beta1.InstanceName).WithStatus(status), client.FieldOwner(memoryOwner), client.ForceOwnership)
	}
	if err != nil && ctx.Err() == nil {
		ctrl.Log.Error(err, "Failed to report on the Instance whether the memory limit is too low, will retry")
	}
	return err == nil
}

// liveMemory returns what the last garbage collection left on the heap in bytes, and the limit of the Go runtime.
func liveMemory() (live, limit int64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(min(sample[0].Value.Uint64(), math.MaxInt64)), debug.SetMemoryLimit(-1)
}

const (
	// startPercent is GOGC while the operator starts. Filling the caches allocates a multiple of what they keep, and
	// collecting that as often as later would take a third of the time. The memory limit applies anyway.
	startPercent = 200
	// startTime is how long the operator has to reconcile what the caches contain.
	startTime = 15 * time.Second
)

// collectLess collects garbage less often while the operator starts, and then returns the memory that it doesn't need
// any longer to the operating system.
func collectLess(ctx context.Context, synced func(context.Context) bool) {
	percent := debug.SetGCPercent(startPercent)
	if synced(ctx) {
		sleep(ctx, startTime)
	}
	debug.SetGCPercent(percent)
	debug.FreeOSMemory()
}

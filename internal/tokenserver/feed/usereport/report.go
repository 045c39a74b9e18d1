package usereport

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
)

const (
	// requestTimeout limits each request, so that a hanging one doesn't block the next report.
	requestTimeout = 10 * time.Second
	// minInterval is the minimum time between two reports. It only matters for the short resolutions
	// of tests.
	minInterval = 100 * time.Millisecond
)

var errNoRoom = errors.New("the operator has not merged earlier reports, and there is no room for more")

// Run reports uses at most once per usage.Interval until ctx is done. Uses that are still pending
// then need another call of Report.
func (r *Recorder) Run(ctx context.Context) {
	ticker := time.NewTicker(max(minInterval, usage.Interval(r.Resolution)))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := r.Report(ctx); err != nil && ctx.Err() == nil {
			r.Logger.Warn("Failed to report the last use of credentials, will retry", "error", err)
		}
	}
}

// batch contains everything that one call of Report adds to the ConfigMaps.
type batch struct {
	uses  uses
	lost  time.Time // zero if no uses were lost
	until time.Time // the batch contains all unreported uses before this time
}

// Report writes all pending uses to the ConfigMaps. Uses that can't be written remain pending.
func (r *Recorder) Report(ctx context.Context) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	b := r.take()
	err := r.write(ctx, &b)
	r.conclude(&b, err)
	return err
}

func (r *Recorder) take() batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	b := batch{uses: r.pending, until: now}
	if r.lost {
		b.lost = now
	}
	r.pending, r.lost, r.writes = uses{}, false, true
	return b
}

func (r *Recorder) conclude(b *batch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = false
	if err == nil {
		r.reported = b.until
		return
	}
	r.lost = r.lost || !b.lost.IsZero()
	for which, at := range b.uses {
		r.pending.add(which, at)
	}
}

// write adds the batch to the first ConfigMaps that have room, and removes the written uses from
// the batch.
func (r *Recorder) write(ctx context.Context, b *batch) error {
	for number := range usage.MaxReports {
		if len(b.uses) == 0 && b.lost.IsZero() {
			return nil
		}
		err := retry.OnError(retry.DefaultRetry, changedMeanwhile, func() error { return r.writeTo(ctx, number, b) })
		if err != nil {
			return fmt.Errorf("writing ConfigMap %s: %w", usage.Name(r.Server, number), err)
		}
	}
	if len(b.uses) > 0 {
		return fmt.Errorf("%w: %d credentials are left", errNoRoom, len(b.uses))
	}
	return nil
}

// changedMeanwhile reports whether a ConfigMap was created, deleted or changed after it was read.
func changedMeanwhile(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// writeTo adds uses to one ConfigMap until it is full. The operator deletes each ConfigMap after
// merging it. The update contains the resource version that was read, so it fails if the ConfigMap was
// deleted.
func (r *Recorder) writeTo(ctx context.Context, number int, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	current, err := r.ConfigMaps.Get(ctx, usage.Name(r.Server, number), metav1.GetOptions{})
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	report, size := &usage.Report{Server: r.Server}, emptySize+len(r.Server)
	if exists {
		report, size = r.read(current)
	}
	contained, changed := r.fill(report, size, b)
	if b.lost.After(report.Lost) {
		report.Lost, changed = b.lost, true
	}
	if changed {
		data, err := report.Encode()
		if err != nil {
			return err
		}
		written := usage.ConfigMap(r.Namespace, r.Server, number, data)
		if exists {
			written.UID, written.ResourceVersion = current.UID, current.ResourceVersion
			_, err = r.ConfigMaps.Update(ctx, written, metav1.UpdateOptions{FieldManager: fieldOwner})
		} else {
			_, err = r.ConfigMaps.Create(ctx, written, metav1.CreateOptions{FieldManager: fieldOwner})
		}
		if err != nil {
			return err
		}
	}
	for _, which := range contained {
		delete(b.uses, which)
	}
	b.lost = time.Time{}
	return nil
}

// fieldOwner is the field manager of the ConfigMaps.
const fieldOwner = "realmkeeper-token-server"

// read returns the report in a ConfigMap of this server, and its size. An unreadable report is
// replaced, because only this server writes it. Its uses are lost.
func (r *Recorder) read(cm *corev1.ConfigMap) (*usage.Report, int) {
	report, err := usage.Parse(cm)
	if err != nil {
		r.Logger.Error("Replaced a damaged usage report", "error", err)
		return &usage.Report{Server: r.Server, Lost: r.Now()}, emptySize + len(r.Server)
	}
	// If the clock was ahead, the report contains times in the future, and the operator would reject it.
	now := r.Now()
	for client, credentials := range report.Uses {
		for credential, at := range credentials {
			if at.After(now) {
				report.Uses[client][credential] = usage.Truncate(now, r.Resolution)
			}
		}
	}
	if report.Lost.After(now) {
		report.Lost = now
	}
	return report, len(cm.Data[usage.DataKey]) + lostSize
}

// fill adds uses of the batch to a report of the given encoded size while there is room. It returns
// the uses of the batch that the report now contains, and whether the report has changed.
func (r *Recorder) fill(report *usage.Report, size int, b *batch) (contained []use, changed bool) {
	latest := r.truncate(r.Now()) // the clock may have been ahead
	for which, at := range b.uses {
		client := types.UID(which.client)
		credentials, knownClient := report.Uses[client]
		before, known := credentials[which.credential]
		if !known {
			more := sizeOf(string(which.credential.Type)) + sizeOf(which.credential.ID) + useSize
			if !knownClient {
				more += sizeOf(which.client) + clientSize
			}
			if size+more > usage.MaxSize {
				continue
			}
			size += more
		}
		used := time.Unix(min(at, latest), 0)
		report.Add(client, which.credential, used)
		contained, changed = append(contained, which), changed || used.After(before)
	}
	return contained, changed
}

// Sizes of the parts of an encoded report, without names.
const (
	emptySize  = len(`{"schemaVersion":1,"server":"","uses":{}}`) + lostSize
	lostSize   = len(`"lost":1234567890,`)
	clientSize = len(`"":{},`)
	useSize    = len(`"/":1234567890,`)
)

// sizeOf returns the maximum size of a string in JSON in bytes, without quotes.
func sizeOf(s string) int {
	size := len(s)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			size += len(`\u0000`) - 1
		}
	}
	return size
}

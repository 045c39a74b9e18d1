package kubectlplugin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// awaitAdoption waits until the operator has adopted every restore record of the report.
func (r *restoration) awaitAdoption(ctx context.Context) error {
	deadline := time.Now().Add(r.timeout)
	reported := -1
	for {
		last := time.Now().Add(interval).After(deadline)
		waiting, first, err := r.pending(ctx, last)
		if err != nil {
			return err
		}
		if waiting == 0 {
			return nil
		}
		if waiting != reported {
			r.progress("Waiting for the operator to adopt %s", number(waiting, "object"))
			reported = waiting
		}
		if last {
			return fmt.Errorf("%w after %s: the operator has not adopted %s, such as %s; the operator continues to adopt them, so check the conditions of the object and the operator log", errTimeout, r.timeout, number(waiting, "object"), first)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(interval):
		}
	}
}

// pending returns how many objects the operator has not adopted yet, and one of them. It updates the
// report when the operator has marked all restore records as adopted, or if last is set: reading the
// records of a large instance takes a while.
func (r *restoration) pending(ctx context.Context, last bool) (count int, first string, err error) {
	unmarked := map[types.UID]bool{}
	err = r.c.eachRecordMetadata(ctx, r.namespace, record.KindRestore, func(m *metav1.PartialObjectMetadata) {
		unmarked[m.UID] = m.Annotations[v1alpha1.AdoptedByAnnotation] == ""
	})
	if err != nil {
		return 0, "", err
	}
	count, first = r.count(func(o *restoredObject) bool { return unmarked[o.record] })
	if count > 0 && !last {
		return count, first, nil
	}
	recorded, err := r.c.recordedRestores(ctx, r.namespace)
	if err != nil {
		return 0, "", err
	}
	for i := range r.report.Objects {
		if o := &r.report.Objects[i]; o.Adoption == adoptionRequested && recorded[o.record] {
			o.Adoption = adoptionAdopted
		}
	}
	count, first = r.count(func(*restoredObject) bool { return true })
	return count, first, nil
}

// count counts the objects that wait for the operator, and returns the first one.
func (r *restoration) count(matches func(*restoredObject) bool) (count int, first string) {
	for i := range r.report.Objects {
		o := &r.report.Objects[i]
		if o.Adoption != adoptionRequested || !matches(o) {
			continue
		}
		if count++; count == 1 {
			first = o.Kind + " " + o.name()
		}
	}
	return count, first
}

// recordedRestores returns the UIDs of the restore records whose contents are in records of Realms and
// ApiClients.
func (c *cluster) recordedRestores(ctx context.Context, namespace string) (map[types.UID]bool, error) {
	recorded := map[types.UID]bool{}
	for _, kind := range []record.Kind{record.KindRealm, record.KindClient} {
		err := c.eachRecord(ctx, namespace, kind, func(secret *corev1.Secret) error {
			if restored := restoredFrom(secret); restored != nil {
				recorded[restored.From] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return recorded, nil
}

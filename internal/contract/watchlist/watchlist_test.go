package watchlist_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/realmkeeper/realmkeeper/internal/contract/watchlist"
)

var streamed = metav1.ListOptions{SendInitialEvents: new(true)}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func bookmark() *corev1.Secret {
	b := secret("")
	b.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return b
}

// A list that doesn't continue within 10 seconds is given up. Changes that arrive instead of the bookmark don't
// make the wait longer. A list that has ended is a watch, which can be quiet.
func TestOpen(t *testing.T) {
	for name, test := range map[string]struct {
		server     func(ctx context.Context, w *watch.RaceFreeFakeWatcher)
		want       []watch.EventType
		wantFailed time.Duration // 0 if the list ends
	}{
		"a complete list": {
			server: func(_ context.Context, w *watch.RaceFreeFakeWatcher) {
				w.Add(secret("a"))
				w.Action(watch.Bookmark, bookmark())
				w.Add(secret("b"))
				time.Sleep(time.Hour)
				w.Modify(secret("a"))
			},
			want: []watch.EventType{watch.Added, watch.Bookmark, watch.Added, watch.Modified},
		},
		"a slow list": {
			server: func(_ context.Context, w *watch.RaceFreeFakeWatcher) {
				for i := range 3 {
					time.Sleep(9 * time.Second)
					w.Add(secret(strconv.Itoa(i)))
				}
				time.Sleep(9 * time.Second)
				w.Action(watch.Bookmark, bookmark())
				time.Sleep(time.Hour)
			},
			want: []watch.EventType{watch.Added, watch.Added, watch.Added, watch.Bookmark},
		},
		"a request without a response": {
			server:     func(ctx context.Context, _ *watch.RaceFreeFakeWatcher) { <-ctx.Done() },
			want:       []watch.EventType{watch.Error},
			wantFailed: 10 * time.Second,
		},
		"no objects, no bookmark": {
			server:     func(context.Context, *watch.RaceFreeFakeWatcher) {},
			want:       []watch.EventType{watch.Error},
			wantFailed: 10 * time.Second,
		},
		"no bookmark": {
			server: func(_ context.Context, w *watch.RaceFreeFakeWatcher) {
				time.Sleep(time.Second)
				w.Add(secret("a"))
			},
			want:       []watch.EventType{watch.Added, watch.Error},
			wantFailed: 11 * time.Second,
		},
		"changes and new objects, no bookmark": {
			server: func(_ context.Context, w *watch.RaceFreeFakeWatcher) {
				w.Add(secret("a"))
				time.Sleep(4 * time.Second)
				w.Action(watch.Bookmark, secret(""))
				time.Sleep(4 * time.Second)
				w.Add(secret("new"))
				time.Sleep(4 * time.Second)
				w.Modify(secret("a"))
			},
			want:       []watch.EventType{watch.Added, watch.Bookmark, watch.Added, watch.Error},
			wantFailed: 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := watch.NewRaceFreeFake()
				started := time.Now()
				list, err := watchlist.Open(t.Context(), "*v1.Secret", streamed, func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
					if name == "a request without a response" {
						test.server(ctx, source)
						return nil, ctx.Err()
					}
					go func() {
						test.server(ctx, source)
						if test.wantFailed == 0 {
							source.Stop()
						}
					}()
					return source, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				var got []watch.EventType
				for e := range list.ResultChan() {
					got = append(got, e.Type)
					if e.Type != watch.Error {
						continue
					}
					if err := apierrors.FromObject(e.Object); !apierrors.IsTimeout(err) || apierrors.IsResourceExpired(err) {
						t.Errorf("error %v, want a timeout", err)
					}
					if failed := time.Since(started); failed != test.wantFailed {
						t.Errorf("failed after %s, want %s", failed, test.wantFailed)
					}
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				synctest.Wait()
				time.Sleep(time.Minute) // a late server
			})
		})
	}
}

var errDown = errors.New("connection refused")

// A watch that doesn't start with a list can be quiet.
func TestOpenWithoutList(t *testing.T) {
	source := watch.NewRaceFreeFake()
	got, err := watchlist.Open(t.Context(), "", metav1.ListOptions{}, func(context.Context, metav1.ListOptions) (watch.Interface, error) { return source, nil })
	if err != nil || got != source {
		t.Errorf("watch %v, error %v", got, err)
	}
}

// A failed request is reported as it is, even if the reflector has ended meanwhile.
func TestOpenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := watchlist.Open(t.Context(), "", streamed, func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, errDown }); !errors.Is(err, errDown) {
			t.Errorf("error %v, want %v", err, errDown)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := watchlist.Open(ctx, "", streamed, func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// Stop ends the watch, its request, and all goroutines. They must not wait for a receiver of the next event.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewRaceFreeFake()
		var request context.Context
		list, err := watchlist.Open(t.Context(), "", streamed, func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			request = ctx
			return source, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		source.Add(secret("a"))
		synctest.Wait()
		list.Stop()
		list.Stop()
		synctest.Wait() // The bubble fails if a goroutine is left.
		if !source.IsStopped() || request.Err() == nil {
			t.Errorf("source stopped: %t, request: %v", source.IsStopped(), request.Err())
		}
	})
}

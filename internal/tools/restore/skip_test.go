package restore_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tools/restore"
)

// failing returns the error of a write, or nil.
type failing func(obj client.Object, dryRun bool) error

// newCluster returns a cluster with the given objects in which some writes fail. It gives new objects a UID,
// as the API server does.
func newCluster(t *testing.T, fails failing, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	testkit.Do(t, errors.Join(corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)))
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.CreateOption) error {
			dryRun := len((&client.CreateOptions{}).ApplyOptions(options).DryRun) > 0
			if err := fails(obj, dryRun); err != nil {
				return err
			}
			if obj.GetUID() == "" {
				obj.SetUID("new-" + types.UID(obj.GetName()))
			}
			return c.Create(ctx, obj, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := fails(obj, false); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, options...)
		},
	})
}

// restoreInto returns a restore of the realm acme and its clients into a cluster.
func restoreInto(t *testing.T, c client.Client, signs signingkey.Key) *restore.Restore {
	t.Helper()
	source := write(t, signs)
	return &restore.Restore{
		Client: c, SystemNamespace: "system", RecordsNamespace: "records", ServiceURL: serviceURL, Source: source,
		Contents: testkit.Value(source.Check())(t), Now: func() time.Time { return now },
	}
}

// restoredClients returns the names of the clients that have a restored record, and whether the realm has the key.
func restoredClients(t *testing.T, c client.Client, signs signingkey.Key) (names []string, realm bool) {
	t.Helper()
	list := &corev1.SecretList{}
	testkit.Do(t, c.List(t.Context(), list, client.InNamespace("records")))
	for i := range list.Items {
		secret := &list.Items[i]
		switch record.KindOf(secret) {
		case record.KindRealm:
			body := testkit.Value(record.ReadRealm(secret))(t)
			realm = realm || slices.ContainsFunc(body.Keys, func(k signingkey.Key) bool { return k.ID == signs.ID })
		case record.KindClient:
			if body := testkit.Value(record.ReadClient(secret))(t); body.Restored != nil {
				names = append(names, body.Name)
			}
		}
	}
	slices.Sort(names)
	return names, realm
}

func isBilling(obj client.Object) bool {
	return obj.GetNamespace() == "acme-apps" && obj.GetName() == "billing"
}

func isRecordOf(obj client.Object, owner string) bool {
	return obj.GetAnnotations()[v1beta1.OwnerAnnotation] == owner
}

var (
	apiClients = schema.GroupResource{Group: v1beta1.GroupVersion.Group, Resource: "apiclients"}
	secrets    = schema.GroupResource{Resource: "secrets"}
)

// A tenant can make its ApiClient unusable before the restore, or between its check and its writes. That
// costs only this client.
func TestRunSkipsClients(t *testing.T) {
	never := time.Time{}
	for name, test := range map[string]struct {
		live        []client.Object
		fails       failing
		later       bool           // the check can't find the problem
		want        restore.Object // of the client billing
		wantProblem string
	}{
		"is being deleted": {
			live:        []client.Object{deleting(billing("c2"))},
			want:        restore.Object{Result: restore.Skipped, Data: restore.NotRestored},
			wantProblem: restore.ErrDeleting.Error(),
		},
		"has another client ID": {
			live:        []client.Object{billing("c2", func(c *v1beta1.ApiClient) { c.Spec.ClientID = "other" })},
			want:        restore.Object{Result: restore.Skipped, Data: restore.NotRestored},
			wantProblem: restore.ErrOtherClient.Error(),
		},
		"is in another realm": {
			live:        []client.Object{billing("c2", func(c *v1beta1.ApiClient) { c.Spec.RealmRef.Name = "other" })},
			want:        restore.Object{Result: restore.Skipped, Data: restore.NotRestored},
			wantProblem: restore.ErrOtherClient.Error(),
		},
		"client ID is held": {
			live:        []client.Object{realm("r2"), recordOf(t, "x", "other/billing", "c9", never)},
			want:        restore.Object{Result: restore.Skipped, Data: restore.NotRestored},
			wantProblem: "kubectl realmkeeper release",
		},
		"quota is full": {
			fails: func(obj client.Object, _ bool) error {
				if isBilling(obj) {
					return apierrors.NewForbidden(apiClients, "billing", errors.New("exceeded quota"))
				}
				return nil
			},
			want:        restore.Object{Result: restore.Skipped, Data: restore.NotRestored},
			wantProblem: "exceeded quota",
		},
		"quota is filled later": {
			later: true,
			fails: func(obj client.Object, dryRun bool) error {
				if isBilling(obj) && !dryRun {
					return apierrors.NewForbidden(apiClients, "billing", errors.New("exceeded quota"))
				}
				return nil
			},
			want:        restore.Object{Result: restore.Skipped, Data: restore.NotRestored},
			wantProblem: "exceeded quota",
		},
		"was created and deleted meanwhile": {
			later: true,
			fails: func(obj client.Object, dryRun bool) error {
				if isBilling(obj) && !dryRun {
					return apierrors.NewAlreadyExists(apiClients, "billing")
				}
				return nil
			},
			want:        restore.Object{Result: restore.Skipped, Data: restore.NotRestored},
			wantProblem: "not found",
		},
		"webhook denies it without details": {
			fails: func(obj client.Object, _ bool) error {
				if isBilling(obj) {
					return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: "denied"}}
				}
				return nil
			},
			want:        restore.Object{Result: restore.Skipped, Data: restore.NotRestored},
			wantProblem: "denied",
		},
		"namespace is missing": {
			fails: func(obj client.Object, _ bool) error {
				if isBilling(obj) {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "acme-apps")
				}
				return nil
			},
			want:        restore.Object{Result: restore.Skipped, Data: restore.NotRestored},
			wantProblem: "create Namespace acme-apps",
		},
		"record was written meanwhile": {
			later: true,
			fails: func(obj client.Object, _ bool) error {
				if isRecordOf(obj, "acme-apps/billing") {
					return apierrors.NewAlreadyExists(secrets, obj.GetName())
				}
				return nil
			},
			want:        restore.Object{Result: restore.Created, Data: restore.NotRestored},
			wantProblem: "already exists",
		},
	} {
		t.Run(name, func(t *testing.T) {
			signs := key(t, signingkey.Active)
			fails := test.fails
			if fails == nil {
				fails = func(client.Object, bool) error { return nil }
			}
			c := newCluster(t, fails, test.live...)
			r := restoreInto(t, c, signs)
			checked := testkit.Value(r.Check(t.Context()))(t)
			done := testkit.Value(r.Run(t.Context()))(t)
			if !test.later {
				testkit.Diff(t, "the report of the check", done, checked)
			}
			got := map[string]restore.Object{}
			for _, row := range done.Objects {
				if row.Name != "billing" && row.Problem != "" || row.Name == "billing" && !strings.Contains(row.Problem, test.wantProblem) {
					t.Errorf("the problem of %s is %q", row, row.Problem)
				}
				got[row.Name] = restore.Object{Result: row.Result, Data: row.Data}
			}
			testkit.Diff(t, "billing", test.want, got["billing"])
			testkit.Diff(t, "orders", restore.Object{Result: restore.Created, Data: restore.Restored}, got["orders"])
			testkit.Diff(t, "number of problems", 1, done.Problems())
			clients, realm := restoredClients(t, c, signs)
			testkit.Diff(t, "restored clients", []string{"orders"}, clients)
			if !realm {
				t.Error("the realm does not have its key")
			}
		})
	}
}

// The keys of a realm are back before the restore creates an ApiClient. An error that concerns all clients,
// such as a lost connection, ends the restore and keeps them.
func TestRunRestoresKeysFirst(t *testing.T) {
	for name, lost := range map[string]error{
		"connection":  errors.New("connection refused"),
		"token":       apierrors.NewUnauthorized("the token has expired"),
		"permissions": apierrors.NewForbidden(apiClients, "", errors.New("no permission to create apiclients")),
		"API server":  apierrors.NewServiceUnavailable("shutting down"),
		"webhook":     apierrors.NewInternalError(errors.New("failed calling webhook: connection refused")),
	} {
		t.Run(name, func(t *testing.T) {
			attempts := map[string]bool{}
			c := newCluster(t, func(obj client.Object, dryRun bool) error {
				if dryRun || obj.GetNamespace() != "acme-apps" {
					return nil
				}
				attempts[obj.GetName()] = true
				return lost
			})
			signs := key(t, signingkey.Active)
			_, err := restoreInto(t, c, signs).Run(t.Context())
			if !errors.Is(err, restore.ErrIncomplete) || !errors.Is(err, lost) || len(attempts) != 1 {
				t.Errorf("after attempts to create %v: %v, want ErrIncomplete", slices.Sorted(maps.Keys(attempts)), err)
			}
			if _, realm := restoredClients(t, c, signs); !realm {
				t.Error("the realm does not have its key")
			}
		})
	}
}

// A Realm with a problem rejects the whole backup, so that you don't go on without a realm.
func TestRunRejectsRealms(t *testing.T) {
	c := newCluster(t, func(obj client.Object, dryRun bool) error {
		if !dryRun {
			t.Errorf("the restore creates %s", obj.GetName())
		}
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: "denied"}}
	})
	_, err := restoreInto(t, c, key(t, signingkey.Active)).Run(t.Context())
	if !errors.Is(err, restore.ErrRejected) || !strings.Contains(err.Error(), "Realm acme") {
		t.Errorf("error %v, want ErrRejected with the Realm", err)
	}
}

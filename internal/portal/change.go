package portal

import (
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	apply "github.com/realmkeeper/realmkeeper/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/audit"
)

// attempts bounds how often a change is made anew because the operator has written a status meanwhile.
const attempts = 10

// edit is a change of a client's spec.
type edit struct {
	action audit.Action
	// path is the field that it changes, for those who would set it back.
	path fieldpath.Path
	// decide changes what the portal sets of the spec, and returns the id of a secret that it makes or ends.
	decide func(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration) (secretID string, err error)
}

// change makes an edit of the client as the person saw it. The error is errChanged where somebody has
// changed it since, errManaged where it wouldn't last, and the API server's otherwise. It is in the audit stream
// either way.
func (p *portal) change(v *visit, e edit) error {
	seen, err := v.seen()
	if err != nil {
		return err
	}
	done := change{action: e.action, client: &v1alpha1.ApiClient{}}
	done.client.Namespace, done.client.Name = v.r.PathValue("namespace"), v.r.PathValue("name")
	for range attempts {
		if err = v.get(done.client); err != nil {
			break
		}
		if done.secretID, err = v.try(done.client, seen, e); !apierrors.IsConflict(err) {
			break
		}
	}
	p.audit(v, done, err)
	return err
}

// try makes an edit of a client, unless it isn't as the person saw it.
func (v *visit) try(live *v1alpha1.ApiClient, seen version, e edit) (secretID string, err error) {
	if seen != versionOf(live) {
		return "", errChanged
	}
	if reason := reverts(live, e.path); reason != "" {
		return "", fmt.Errorf("%w: %s", errManaged, reason)
	}
	if err := v.upgradeManager(live); err != nil {
		return "", err
	}
	ours, err := apply.ExtractApiClient(live, FieldOwner)
	if err != nil {
		return "", fmt.Errorf("reading what the portal owns of ApiClient %s: %w", client.ObjectKeyFromObject(live), err)
	}
	if ours.Spec == nil {
		ours.Spec = apply.ApiClientSpec()
	}
	if secretID, err = e.decide(live, ours.Spec); err != nil {
		return secretID, err
	}
	// With the version the API server refuses what stands on an older one. Whoever else owns a field gives
	// it up: the person has seen its value and wants another.
	ours.WithUID(live.UID).WithResourceVersion(live.ResourceVersion)
	return secretID, v.as.Apply(v.ctx(), ours, client.FieldOwner(FieldOwner), client.ForceOwnership)
}

// upgradeManager has our creation of a client count as an apply, so that what we then leave out is removed.
func (v *visit) upgradeManager(live *v1alpha1.ApiClient) error {
	created := false
	for _, entry := range live.ManagedFields {
		created = created || entry.Manager == FieldOwner && entry.Operation == metav1.ManagedFieldsOperationUpdate
	}
	if !created {
		return nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(FieldOwner), FieldOwner)
	if err != nil {
		return fmt.Errorf("upgrading the managed fields of ApiClient %s: %w", client.ObjectKeyFromObject(live), err)
	}
	return v.as.Patch(v.ctx(), live, client.RawPatch(types.JSONPatchType, patch))
}

func (v *visit) get(c *v1alpha1.ApiClient) error {
	if !canBeName(v.r.PathValue("namespace")) || !canBeName(v.r.PathValue("name")) {
		return errNoSuchPage
	}
	key := client.ObjectKey{Namespace: v.r.PathValue("namespace"), Name: v.r.PathValue("name")}
	return v.as.Get(v.ctx(), key, c)
}

// version says which client a person saw, and which spec of it. What the operator writes into the
// status makes no difference.
type version struct {
	uid        types.UID
	generation int64
}

func versionOf(c *v1alpha1.ApiClient) version { return version{uid: c.UID, generation: c.Generation} }

var errForm = errors.New("that is no form of this page")

// seen reads from the form what the person saw.
func (v *visit) seen() (version, error) {
	if err := v.r.ParseForm(); err != nil {
		return version{}, fmt.Errorf("%w: %w", errInput, err)
	}
	generation, err := strconv.ParseInt(v.r.PostForm.Get("generation"), 10, 64)
	if err != nil {
		return version{}, fmt.Errorf("%w: %w", errInput, errForm)
	}
	return version{uid: types.UID(v.r.PostForm.Get("uid")), generation: generation}, nil
}

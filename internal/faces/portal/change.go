package portal

import (
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
)

// maxAttempts limits the attempts to apply a change that conflicts with the operator's status
// updates.
const maxAttempts = 10

// edit describes a change to a client's spec.
type edit struct {
	action audit.Action
	// path is the field that the edit changes. If another tool manages this field, the
	// change is rejected.
	path fieldpath.Path
	// mutate changes the client's spec. It returns the ID of the added or revoked secret, if any.
	mutate func(c *v1beta1.ApiClient) (secretID string, err error)
}

// change applies an edit and audits the outcome. It returns errChanged if the client has changed
// since the user loaded the page, and errManaged if another tool would revert the edit.
func (p *portal) change(req *request, e edit) error {
	seen, err := req.seenVersion()
	if err != nil {
		return err
	}
	done := change{action: e.action, client: &v1beta1.ApiClient{}}
	done.client.Namespace, done.client.Name = req.r.PathValue("namespace"), req.r.PathValue("name")
	for range maxAttempts {
		if err = req.get(done.client); err != nil {
			break
		}
		if done.secretID, err = req.tryEdit(done.client, seen, e); !apierrors.IsConflict(err) {
			break
		}
	}
	p.audit(req, done, err)
	return err
}

// tryEdit makes one attempt to apply an edit. It returns errChanged if live isn't the version that
// the user saw.
func (req *request) tryEdit(live *v1beta1.ApiClient, seen version, e edit) (secretID string, err error) {
	if seen != versionOf(live) {
		return "", errChanged
	}
	if reason := revertReason(live, e.path); reason != "" {
		return "", fmt.Errorf("%w: %s", errManaged, reason)
	}
	changed := live.DeepCopy()
	if secretID, err = e.mutate(changed); err != nil {
		return secretID, err
	}
	// The resource version makes the API server reject changes based on a stale object. A patch keeps
	// fields that this version of the portal doesn't know.
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	return secretID, req.api.Patch(req.ctx(), changed, patch, client.FieldOwner(FieldOwner))
}

func (req *request) get(c *v1beta1.ApiClient) error {
	if !validName(req.r.PathValue("namespace")) || !validName(req.r.PathValue("name")) {
		return errPageNotFound
	}
	key := client.ObjectKey{Namespace: req.r.PathValue("namespace"), Name: req.r.PathValue("name")}
	return req.api.Get(req.ctx(), key, c)
}

// version identifies a client and the version of its spec. Status updates don't change it.
type version struct {
	uid        types.UID
	generation int64
}

func versionOf(c *v1beta1.ApiClient) version { return version{uid: c.UID, generation: c.Generation} }

var errForm = errors.New("the form is incomplete; reload the page and try again")

// seenVersion returns the version that the user saw. The form contains it in hidden fields.
func (req *request) seenVersion() (version, error) {
	if err := req.r.ParseForm(); err != nil {
		return version{}, fmt.Errorf("%w: %w", errInput, err)
	}
	generation, err := strconv.ParseInt(req.r.PostForm.Get("generation"), 10, 64)
	if err != nil {
		return version{}, fmt.Errorf("%w: %w", errInput, errForm)
	}
	return version{uid: types.UID(req.r.PostForm.Get("uid")), generation: generation}, nil
}

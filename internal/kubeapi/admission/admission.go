// Package admission validates objects as the API server does when kubectl applies them: with the
// schemas and CEL rules of the CustomResourceDefinitions, and with the same error messages.
package admission

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/operation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/config/crd"
)

// Rules are the rules for the objects of all CustomResourceDefinitions.
type Rules struct {
	kinds map[schema.GroupVersionKind]*rules
}

// rules are the rules for the objects of one version of a CustomResourceDefinition.
type rules struct {
	kind       schema.GroupVersionKind
	namespaced bool
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

var errUnusable = errors.New("unusable CustomResourceDefinition")

// Load compiles the rules.
func Load() (*Rules, error) {
	files, err := fs.Glob(crd.Files, "bases/*.yaml")
	if err != nil {
		return nil, err
	}
	all := &Rules{kinds: map[schema.GroupVersionKind]*rules{}}
	for _, file := range files {
		content, err := crd.Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errUnusable, file, err)
		}
		for i := range definition.Spec.Versions {
			r, err := compile(definition, &definition.Spec.Versions[i])
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %w", errUnusable, file, err)
			}
			all.kinds[r.kind] = r
		}
	}
	return all, nil
}

func compile(definition *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) (*rules, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	spec := &definition.Spec
	return &rules{
		kind:       schema.GroupVersionKind{Group: spec.Group, Version: version.Name, Kind: spec.Names.Kind},
		namespaced: spec.Scope == apiextensionsv1.NamespaceScoped,
		structural: structural,
		schema:     validator,
		cel:        cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// Admit prepares a new object, or a new version of old, and checks it. It sets the status to its default,
// sets other defaults, and keeps the generation unless something other than metadata changed. old is nil
// for a new object. An object without rules for its kind is accepted as it is.
//
// The error is the same as that of the API server, and implements apierrors.APIStatus.
func (a *Rules) Admit(ctx context.Context, obj, old *unstructured.Unstructured) error {
	if r := a.kinds[obj.GroupVersionKind()]; r != nil {
		return r.admit(ctx, obj, old)
	}
	return nil
}

func (r *rules) admit(ctx context.Context, obj, old *unstructured.Unstructured) error {
	if err := r.decode(obj); err != nil {
		return err
	}
	delete(obj.Object, "status")
	defaulting.Default(obj.Object, r.structural)
	obj.SetGeneration(1)
	var errs field.ErrorList
	if old == nil {
		errs = r.create(ctx, obj)
	} else {
		obj.SetGeneration(old.GetGeneration())
		if !equality.Semantic.DeepEqual(withoutMetadata(obj), withoutMetadata(old)) {
			obj.SetGeneration(old.GetGeneration() + 1)
		}
		errs = r.update(ctx, obj, old)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(r.kind.GroupKind(), obj.GetName(), errs)
	}
	return nil
}

// decode rejects unknown fields, as kubectl requests by default, and sets defaults.
func (r *rules) decode(obj *unstructured.Unstructured) error {
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(obj.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return r.badRequest(err)
	}
	unknown = append(unknown, pruning.PruneWithOptions(obj.Object, r.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, r.structural)
	if found {
		if err := objectmeta.SetObjectMeta(obj.Object, meta); err != nil {
			return r.badRequest(err)
		}
	}
	if len(unknown) > 0 {
		strict := make([]error, 0, len(unknown))
		for _, path := range unknown {
			strict = append(strict, fmt.Errorf("unknown field %q", path))
		}
		return r.badRequest(runtime.NewStrictDecodingError(strict))
	}
	defaulting.Default(obj.Object, r.structural)
	return nil
}

func (r *rules) badRequest(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", r.kind.Kind, r.kind.Version, r.kind.Kind, err))
}

func (r *rules) create(ctx context.Context, obj *unstructured.Unstructured) field.ErrorList {
	errs := r.metadataErrors(ctx, obj, nil)
	errs = append(errs, validation.ValidateCustomResource(nil, obj.Object, r.schema)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, obj.Object)...)
	if blocked := blocking(errs); blocked != nil {
		return append(errs, blocked)
	}
	broken, _ := r.cel.Validate(ctx, nil, r.structural, obj.Object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

// update checks a change. Schemas and CEL rules are not applied again to unchanged values (validation
// ratcheting).
func (r *rules) update(ctx context.Context, obj, old *unstructured.Unstructured) field.ErrorList {
	correlated := common.NewCorrelatedObject(obj.Object, old.Object, &model.Structural{Structural: r.structural})
	errs := r.metadataErrors(ctx, obj, old)
	errs = append(errs, validation.ValidateCustomResourceUpdate(nil, obj.Object, old.Object, r.schema, validation.WithRatcheting(correlated))...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, obj.Object)...)
	if blocked := blocking(errs); blocked != nil {
		return append(errs, blocked)
	}
	broken, _ := r.cel.Validate(ctx, nil, r.structural, obj.Object, old.Object, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(correlated))
	return append(errs, broken...)
}

// blocking returns the error that the API server adds if other errors prevent the evaluation of CEL
// rules. It returns nil if the rules can be evaluated.
func blocking(errs field.ErrorList) *field.Error {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")
		}
	}
	return nil
}

func withoutMetadata(obj *unstructured.Unstructured) map[string]any {
	content := map[string]any{}
	for key, value := range obj.Object {
		if key != "metadata" && key != "status" {
			content[key] = value
		}
	}
	return content
}

// metadataErrors validates the metadata of an object. old is nil for a new object.
func (r *rules) metadataErrors(ctx context.Context, obj, old *unstructured.Unstructured) field.ErrorList {
	path, declarative := field.NewPath("metadata"), utilfeature.DefaultFeatureGate.Enabled(features.DeclarativeValidationBeta)
	after, err := metadataOf(obj)
	if err != nil {
		return field.ErrorList{field.Invalid(path, nil, err.Error())}
	}
	if old == nil {
		return metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, after, nil, r.namespaced, metavalidation.NameIsDNSSubdomain, path, declarative)
	}
	before, err := metadataOf(old)
	if err != nil {
		return field.ErrorList{field.Invalid(path, nil, err.Error())}
	}
	// The API server sets these fields if the applied object omits them.
	after.UID, after.CreationTimestamp, after.ResourceVersion = before.UID, before.CreationTimestamp, "0"
	return metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Update, after, before, r.namespaced, nil, path, declarative)
}

func metadataOf(obj *unstructured.Unstructured) (*metav1.ObjectMeta, error) {
	meta, _, err := objectmeta.GetObjectMeta(obj.Object, false)
	if meta == nil {
		meta = &metav1.ObjectMeta{}
	}
	return meta, err
}

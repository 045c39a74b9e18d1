package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// upToDate reports whether the operator owns exactly the desired fields in live, with the desired values.
//
// It doesn't use the Extract functions of client-go: the first call parses the schemas of all built-in
// types, which takes 150 ms. The managed fields contain what upToDate needs to know about the schema.
func upToDate(live client.Object, desired runtime.ApplyConfiguration) (bool, error) {
	have, err := generic(live)
	if err != nil {
		return false, err
	}
	want, err := generic(desired)
	if err != nil {
		return false, err
	}
	fields, err := appliedFields(live)
	if err != nil {
		return false, err
	}
	dropIdentity(want)
	return fields != nil && reflect.DeepEqual(fields.of(have), any(want)), nil
}

// dropIdentity removes the fields that identify an object, because they have no owner.
func dropIdentity(object map[string]any) {
	delete(object, "apiVersion")
	delete(object, "kind")
	metadata, _ := object["metadata"].(map[string]any)
	delete(metadata, "name")
	delete(metadata, "namespace")
	if len(metadata) == 0 {
		delete(object, "metadata")
	}
}

// generic converts an object to its JSON form.
func generic(obj any) (map[string]any, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	var content map[string]any
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", obj, err)
	}
	return content, nil
}

// fieldTree is a set of fields in the format FieldsV1 of managed fields. Its keys are "f:" and the name
// of a field, "k:" and a JSON object with the keys of an element of a list, "v:" and an element of a list
// of values as JSON, or ".", the object or element itself. Its values are sets, too, but the type isn't
// recursive, because kube-api-linter never ends for recursive types.
type fieldTree map[string]any

func (t fieldTree) child(key string) fieldTree {
	child, _ := t[key].(map[string]any)
	return child
}

// appliedFields returns the fields that the operator has applied and still owns.
func appliedFields(live client.Object) (fieldTree, error) {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager != v1beta1.FieldOwner || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" {
			continue
		}
		var tree fieldTree
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &tree); err != nil {
			return nil, fmt.Errorf("reading the managed fields of %T %s: %w", live, client.ObjectKeyFromObject(live), err)
		}
		return tree, nil
	}
	return nil, nil
}

// of returns the part of a value that is in the set.
func (t fieldTree) of(value any) any {
	if _, itself := t["."]; len(t) == 0 || itself && len(t) == 1 {
		return value // a field that has no children in the set is in it with everything that it contains
	}
	switch value := value.(type) {
	case map[string]any:
		part := map[string]any{}
		for key := range t {
			name, ok := strings.CutPrefix(key, "f:")
			if field, present := value[name]; ok && present {
				part[name] = t.child(key).of(field)
			}
		}
		return part
	case []any:
		part := []any{}
		for _, element := range value {
			for key := range t {
				if keys, ok := identify(key, element); ok {
					part = append(part, with(keys, t.child(key).of(element)))
				}
			}
		}
		return part
	}
	return value
}

// identify reports whether the key in a fieldTree belongs to an element of a list. If so, it returns the
// fields of the element that are its keys.
func identify(key string, element any) (keys map[string]any, ok bool) {
	if encoded, ok := strings.CutPrefix(key, "v:"); ok {
		var value any
		return nil, json.Unmarshal([]byte(encoded), &value) == nil && reflect.DeepEqual(value, element)
	}
	encoded, ok := strings.CutPrefix(key, "k:")
	object, isObject := element.(map[string]any)
	if !ok || !isObject || json.Unmarshal([]byte(encoded), &keys) != nil {
		return nil, false
	}
	for name, value := range keys {
		if !reflect.DeepEqual(object[name], value) {
			return nil, false
		}
	}
	return keys, true
}

// with adds the keys to an element. The operator always sets them, but needn't own them.
func with(keys map[string]any, element any) any {
	if object, ok := element.(map[string]any); ok {
		maps.Copy(object, keys)
	}
	return element
}

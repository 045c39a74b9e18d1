// Package v1alpha1 is version v1alpha1 of the API group auth.realmkeeper.dev: the
// custom resources Realm and ApiClient, and the names that their status, labels and
// annotations use.
//
// Every rule that a schema can hold is a validation rule of the custom resource
// definition that is generated from these types. What depends on another object is
// decided in reconciliation and told in conditions. The schema sets no defaults, so
// a stored spec is what its author wrote; defaults.go has what a field means when it
// is left out.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="applyconfiguration"
// +groupName=auth.realmkeeper.dev
package v1alpha1

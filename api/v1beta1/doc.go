// Package v1beta1 contains version v1beta1 of the API group auth.realmkeeper.dev: the custom
// resources Realm and ApiClient, and the names that their status, labels, and annotations use.
//
// Every rule that a schema can express is a validation rule of the custom resource definition
// generated from these types. Rules that depend on other objects are checked during reconciliation
// and reported in conditions. The schema sets no defaults, so a stored spec is exactly what its
// author wrote. The defaults of unset fields are in defaults.go.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="applyconfiguration"
// +groupName=auth.realmkeeper.dev
package v1beta1

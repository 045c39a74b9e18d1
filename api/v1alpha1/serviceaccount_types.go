package v1alpha1

// ServiceAccountReference references a service account in the same namespace.
type ServiceAccountReference struct {
	// name is the name of the service account. It must not be "default", which Pods use unless they
	// specify another service account.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="spec.serviceAccounts.name must be a valid service account name: lowercase letters, digits, and inner hyphens and dots"
	// +kubebuilder:validation:XValidation:rule=`self != 'default'`,message="spec.serviceAccounts.name must not be default, which Pods use unless they specify another service account; create a service account for this workload"
	// +required
	Name string `json:"name,omitempty"`
}

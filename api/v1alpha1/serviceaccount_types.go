package v1alpha1

// ServiceAccountReference names a service account in the same namespace.
type ServiceAccountReference struct {
	// name is the name of the service account. It isn't "default", which every pod has that
	// names none.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="spec.serviceAccounts.name must be the name of a service account: lower-case letters, digits, and inner hyphens and dots"
	// +kubebuilder:validation:XValidation:rule=`self != 'default'`,message="spec.serviceAccounts.name must not be default, which every pod of the namespace has that names no service account: make one for this workload"
	// +required
	Name string `json:"name,omitempty"`
}

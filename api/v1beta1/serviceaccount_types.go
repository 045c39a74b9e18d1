package v1beta1

// ServiceAccountReference references a service account in the same namespace.
type ServiceAccountReference struct {
	// name is the name of the service account. It must not be "default", which Pods use unless they
	// specify another service account.
	// +kubebuilder:validation:XValidation:rule=`self != 'default'`,message="spec.serviceAccounts.name must not be default, which Pods use unless they specify another service account; create a service account for this workload"
	// +required
	Name DNSSubdomain `json:"name,omitempty"`
}

package v1alpha1

// SenderConstraint is a way to bind tokens to a key that their sender must prove to have.
//
// +kubebuilder:validation:Enum=DPoP
type SenderConstraint string

// SenderConstraintDPoP requires DPoP proofs (RFC 9449).
const SenderConstraintDPoP SenderConstraint = "DPoP"

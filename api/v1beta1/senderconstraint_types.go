package v1beta1

// SenderConstraint is a way to bind tokens to a key. The sender of a token must prove possession of
// the key.
//
// +kubebuilder:validation:Enum=DPoP
type SenderConstraint string

// SenderConstraintDPoP requires DPoP proofs (RFC 9449).
const SenderConstraintDPoP SenderConstraint = "DPoP"

package v1alpha1

// Limits bound what one client may do.
type Limits struct {
	// tokensPerSecond is how many tokens a client may get in a second from each token server,
	// 1 to 100000: so many at once, and as many in each second from then on. What is more
	// is answered with 429 and Retry-After. A workload that uses its token until it expires
	// needs less than one. Left out, there is no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	TokensPerSecond *int32 `json:"tokensPerSecond,omitempty"`
}

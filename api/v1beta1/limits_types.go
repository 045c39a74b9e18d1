package v1beta1

// Limits restricts what a client can do.
type Limits struct {
	// tokensPerSecondPerServer is the number of tokens that each client can get per second from
	// each token server, 1 to 100000. It is also the maximum burst. Requests over the limit get a
	// 429 response with Retry-After. A workload that reuses its token until it expires needs less
	// than one token per second. If unset, this object sets no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	TokensPerSecondPerServer int32 `json:"tokensPerSecondPerServer,omitempty"`
}

package v1beta1

// StatusList configures the token status lists of a realm (draft-ietf-oauth-status-list). With a status
// list, APIs that verify tokens offline learn of revocations before the tokens expire.
type StatusList struct {
	// enabled adds the claim status to the realm's tokens, with the index of the client in the realm's
	// list, and publishes the list at status.statusListURI of the Realm. A token is INVALID in the list
	// while its client or the realm is suspended, has expired, or is not Accepted, after the client was
	// deleted, and if it was issued before tokensValidAfterTime of the client or the realm. Clients get an
	// index soon after you set it to true. If you set it to false, the list is published until the last
	// token with the claim has expired. Each client costs the operator one more Secret. Defaults to false.
	// +optional
	Enabled bool `json:"enabled,omitempty"` //nolint:kubeapilinter // false means the same as an unset field.

	// ttl is how long verifiers can use the list before they get it again: a duration from 5s to 10m in
	// hours, minutes, and whole seconds, such as "30s". An offline verifier rejects a revoked token about
	// two seconds later at the latest. Defaults to 10s.
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || (duration(self) >= duration('5s') && duration(self) <= duration('10m'))`,message="spec.statusList.ttl must be between 5s and 10m; use 10s unless verifiers get the list too often"
	// +optional
	TTL *Duration `json:"ttl,omitempty"`
}

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types in this file name the formats of several fields, so that each rule exists once. The API
// server adds the path and the value of the field to a message.

// DNSSubdomain is a DNS subdomain (RFC 1123), such as the name of a Secret or ServiceAccount.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="must have at most 253 lowercase letters, digits, hyphens, and dots, with a letter or digit at both ends"
type DNSSubdomain = string

// LabelKey is the key of a label.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule=`self.indexOf('/') <= 253 && self.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')`,message="must be a valid label key: an optional DNS prefix and a slash, then at most 63 letters, digits, dots, underscores, and hyphens, with a letter or digit at both ends"
type LabelKey string

// LabelValue is a label value: empty, or at most 63 letters, digits, dots, underscores, and hyphens
// that begin and end with a letter or digit.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$')`,message="must be a valid label value: at most 63 letters, digits, dots, underscores, and hyphens, with a letter or digit at both ends"
type LabelValue string

// Labels maps label keys to values.
//
// +kubebuilder:validation:XValidation:rule=`self.all(key, key.indexOf('/') <= 253 && key.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'))`,messageExpression=`'must have valid label keys (an optional DNS prefix and a slash, then at most 63 letters, digits, dots, underscores, and hyphens, with a letter or digit at both ends), not ' + self.filter(key, !(key.indexOf('/') <= 253 && key.matches(r'^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')))[0]`
type Labels map[string]LabelValue

// Duration is a duration in hours, minutes, and whole seconds, such as "1h30m".
//
// The Kubernetes API conventions recommend integers with a unit in the name. A string that includes
// its units is easier to read and write for values between seconds and years; Gateway API and
// cert-manager use it too. The rule keeps it strict: clients need no parser for fractions or for
// units below a second.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([0-9]{1,5}[hms]){1,3}$')`,message="must be a duration in hours, minutes, and whole seconds, such as 5m or 1h30m"
type Duration metav1.Duration

// MarshalJSON writes d in the format of time.Duration.
func (d Duration) MarshalJSON() ([]byte, error) { return metav1.Duration(d).MarshalJSON() }

// UnmarshalJSON reads a duration in the format of time.Duration.
func (d *Duration) UnmarshalJSON(data []byte) error { return (*metav1.Duration)(d).UnmarshalJSON(data) }

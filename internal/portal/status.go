package portal

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// State is how a client or realm is, in a word.
type State struct {
	Word string
	// Kind is good, busy, off or bad: what colour and shape the word has.
	Kind string
	// Why says more; empty while all is well.
	Why string
}

// The states, by which lists can be filtered.
const (
	StateReady     = "Ready"
	StateWorking   = "Working"
	StateSuspended = "Suspended"
	StateExpired   = "Expired"
	StateFault     = "Fault"
)

var allStates = []string{StateReady, StateWorking, StateSuspended, StateExpired, StateFault}

// stateOf sums up the conditions of an object.
func stateOf(conditions []metav1.Condition, generation int64) State {
	ready := meta.FindStatusCondition(conditions, string(v1alpha1.ConditionReady))
	if ready == nil || ready.ObservedGeneration != generation {
		return State{StateWorking, "busy", "The operator hasn't seen the last change yet."}
	}
	reason := v1alpha1.ConditionReason(ready.Reason)
	switch {
	case ready.Status == metav1.ConditionTrue:
		return State{Word: StateReady, Kind: "good"}
	case ready.Status == metav1.ConditionUnknown:
		return State{StateWorking, "busy", ready.Message}
	case reason == v1alpha1.ReasonSuspended:
		return State{StateSuspended, "off", reasonWords[reason]}
	case reason == v1alpha1.ReasonExpired:
		return State{StateExpired, "off", reasonWords[reason]}
	}
	return State{StateFault, "bad", wordsOf(ready)}
}

// conditionWords ask in a question what a condition answers.
var conditionWords = map[v1alpha1.ConditionType]string{
	v1alpha1.ConditionAccepted:    "Is it valid?",
	v1alpha1.ConditionProgrammed:  "Do all token servers know it?",
	v1alpha1.ConditionReady:       "Can tokens be had?",
	v1alpha1.ConditionReconciling: "Is the operator working on it?",
	v1alpha1.ConditionStalled:     "Does somebody have to act?",
}

// reasonWords say for people what a reason means, and who can do something about it.
var reasonWords = map[v1alpha1.ConditionReason]string{
	v1alpha1.ReasonAccepted:                       "All that it says is valid, and all that it refers to is there.",
	v1alpha1.ReasonReady:                          "All is well.",
	v1alpha1.ReasonProgressing:                    "Work is under way, and needs nobody's help.",
	v1alpha1.ReasonSuspended:                      "Somebody has suspended it. No token is issued until somebody resumes it.",
	v1alpha1.ReasonNoTokenServer:                  "No token server is running. Whoever runs this instance has to look.",
	v1alpha1.ReasonLifetimeExceedsInstanceMaximum: "Its token lifetime is longer than the instance allows.",
	v1alpha1.ReasonKeysUnreadable:                 "The keys of the realm can't be read. Whoever runs this instance has to restore them.",
	v1alpha1.ReasonRealmNotFound:                  "Its realm doesn't exist. It goes on as soon as somebody makes the realm.",
	v1alpha1.ReasonNamespaceNotAllowed:            "The realm doesn't allow clients from this namespace.",
	v1alpha1.ReasonScopeNotInRealm:                "It lists a scope that the realm doesn't have.",
	v1alpha1.ReasonAudienceNotInRealm:             "It lists an audience that the realm doesn't have.",
	v1alpha1.ReasonLifetimeExceedsRealm:           "Its token lifetime is longer than that of the realm.",
	v1alpha1.ReasonClientIDConflict:               "An older client of the realm has the same client id.",
	v1alpha1.ReasonSecretConflict:                 "A Secret of the name that it needs is there already, and is somebody else's.",
	v1alpha1.ReasonRealmNotReady:                  "The realm itself issues no tokens at the moment.",
	v1alpha1.ReasonExpired:                        "Its time is over, or that of all its secrets. A later time revives it.",
	v1alpha1.ReasonRecordUnreadable:               "What the token servers know of it can't be read. Whoever runs this instance has to restore it.",
	v1alpha1.ReasonSecretNotFound:                 "The Secret that it takes its secret from isn't there, or lacks the key.",
	v1alpha1.ReasonSecretNotLabelled:              "The Secret that it takes its secret from lacks the label that lets the operator read it.",
	v1alpha1.ReasonSecretTooShort:                 "The secret that somebody provides is too short.",
	v1alpha1.ReasonSecretNotUsable:                "The secret that somebody provides has characters that no client can send, or is too long.",
	v1alpha1.ReasonHashNotSupported:               "The hash of its secret has a form that isn't supported.",
	v1alpha1.ReasonServiceAccountNotFound:         "None of its service accounts exists. It goes on as soon as somebody makes one.",
	v1alpha1.ReasonPublicKeyNotSupported:          "One of its public keys has a form that isn't supported.",
}

// wordsOf says what a condition means, and what the operator says of this very object.
func wordsOf(c *metav1.Condition) string {
	words, ok := reasonWords[v1alpha1.ConditionReason(c.Reason)]
	switch {
	case !ok:
		return c.Message // of a newer operator
	case c.Message == "" || c.Status == metav1.ConditionTrue:
		return words
	}
	return words + " " + c.Message
}

// answer is a condition in words.
type answer struct {
	Question, Answer, Why, Kind string
	Since                       metav1.Time
}

// answersOf puts conditions into words, in the order in which they are decided.
func answersOf(conditions []metav1.Condition) []answer {
	var answers []answer
	for _, c := range []v1alpha1.ConditionType{
		v1alpha1.ConditionReady, v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed,
		v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
	} {
		found := meta.FindStatusCondition(conditions, string(c))
		if found == nil {
			continue
		}
		a := answer{Question: conditionWords[c], Answer: "Not yet", Kind: "busy", Why: wordsOf(found), Since: found.LastTransitionTime}
		switch found.Status {
		case metav1.ConditionTrue:
			a.Answer, a.Kind = "Yes", "good"
			if c == v1alpha1.ConditionStalled {
				a.Kind = "bad"
			}
		case metav1.ConditionFalse:
			a.Answer, a.Kind = "No", "bad"
		}
		answers = append(answers, a)
	}
	return answers
}

// sentence makes one of an error, as Go writes them.
func sentence(err error) string {
	s := strings.TrimSuffix(err.Error(), ".")
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:] + "."
}

// lifetime writes a duration as people do.
func lifetime(d *metav1.Duration) string {
	if d == nil {
		return ""
	}
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

package seqsvr

import "time"

//go:generate go run ./internal/reasons

// Reason is the machine-readable reason of a refusal or of a failure, with its properties.
type Reason struct {
	// Name in capitals, as in [Error.Reason].
	Name string
	// Subject of the requests that are refused with it; Clients if only clients report it.
	Subject string
	// Retryable is whether the same request can succeed later.
	Retryable bool
	// RetryAfter is the usual hint of servers; 0 if there is none.
	RetryAfter time.Duration
	// OutcomeUnknown is whether the request may have taken effect.
	OutcomeUnknown bool
	// Meaning is a description for humans.
	Meaning string
}

// LookupReason returns the reason with a name. ok is false for a name that only later releases know; such a reason is
// judged by its code and its hint.
func LookupReason(name string) (reason Reason, ok bool) {
	reason, ok = reasons[name]
	return reason, ok
}

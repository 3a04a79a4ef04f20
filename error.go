package waypost

import (
	"errors"
	"fmt"
)

// ErrorCode is the kind of an [Error]. It decides how a caller can react. The strings are
// part of the API: they end the problem type of an answer.
type ErrorCode string

const (
	EInvalid      ErrorCode = "invalid"                // the input breaks a rule; 422
	EMalformed    ErrorCode = "malformed"              // the input cannot be parsed; 400
	ETooLarge     ErrorCode = "too-large"              // 413
	EUnauthorized ErrorCode = "unauthorized"           // no credential, or a wrong one; 401
	ESecondFactor ErrorCode = "second-factor-required" // a code is missing or wrong; 401
	EForbidden    ErrorCode = "forbidden"              // 403
	ENotFound     ErrorCode = "not-found"              // 404
	EConflict     ErrorCode = "conflict"               // 409
	EGone         ErrorCode = "gone"                   // expired; 410
	EBlocked      ErrorCode = "blocked"                // an operator has blocked the short address for legal reasons; 451
	EStale        ErrorCode = "stale"                  // the resource has changed since it was read; 412
	EInProgress   ErrorCode = "in-progress"            // the same request is being answered; 409, try again
	EKeyReused    ErrorCode = "key-reused"             // the idempotency key belongs to another request; 422
	ECounting     ErrorCode = "counting"               // the answer is being counted; 202, try again
	EUnavailable  ErrorCode = "unavailable"            // try again later; 503
	EExhausted    ErrorCode = "keys-exhausted"         // no key left in the region; 503
	EInternal     ErrorCode = "internal"               // a fault of the service; 500
)

// Error carries a machine-readable code, a message that is safe to show to the client,
// and the cause for the log.
type Error struct {
	Code    ErrorCode
	Message string
	Err     error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an [Error] without a cause.
func Errorf(code ErrorCode, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WrapError returns an [Error] with err as its cause. Users see only the message.
func WrapError(code ErrorCode, message string, err error) *Error {
	return &Error{Code: code, Message: message, Err: err}
}

// ErrNoLink says that the link of a request is not there.
var ErrNoLink = Errorf(ENotFound, "there is no such link")

// CodeOf returns the code of the first [Error] in err's chain, EInternal if there is
// none, and "" for nil.
func CodeOf(err error) ErrorCode {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return EInternal
}

// MessageOf returns the text of err that is safe to show.
func MessageOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return "internal error"
}

// ProblemType returns the "type" of a problem document (RFC 9457) for a code.
func ProblemType(code ErrorCode) string { return "urn:waypost:problem:" + string(code) }

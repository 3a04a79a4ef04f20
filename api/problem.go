package api

// Problem is an error of the API (RFC 9457).
type Problem struct {
	Type   string `json:"type" format:"uri" example:"urn:waypost:problem:not-found" doc:"Names the kind of problem. It never changes."`
	Title  string `json:"title" doc:"Describes the kind of problem."`
	Status int    `json:"status" example:"404" doc:"The HTTP status."`
	Detail string `json:"detail" doc:"Describes this occurrence."`

	// RequestID repeats the header X-Request-Id.
	RequestID string `json:"request_id,omitzero" doc:"Names this request in the log of the control plane. Only errors from 500 on have it."`

	Errors []FieldError `json:"errors,omitzero" doc:"The fields at fault, where they are known one by one."`
}

// FieldError describes a fault of one field or parameter. It never holds the value.
type FieldError struct {
	Location string `json:"location" example:"body.custom_code" doc:"The field or parameter at fault."`
	Message  string `json:"message" doc:"The fault."`
}

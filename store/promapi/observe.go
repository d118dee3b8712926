package promapi

import "time"

// An Observation describes a finished request.
type Observation struct {
	Endpoint string   // name in the API: query_range, label_values, read …
	Query    string   // expression, if there is one
	Matchers []string // match[], or a remote read's matchers

	// Start and End are the requested range; of an instant query both are its time. They are zero if the
	// request has none.
	Start, End time.Time
	Step       time.Duration // of a range query

	Series   int   // series, names or values in the response
	Samples  int64 // samples in the response
	Read     int64 // samples that the engine read
	Peak     int   // peak of the samples in the engine's memory
	Bytes    int64 // of the response's body, before compression
	Warnings []string
	Infos    []string

	Status int
	Err    *Error // nil: the request succeeded
	// Lost is the error of writing a response to a client that disconnected, or nil.
	Lost error

	Queued   time.Duration // time in the queue and in Admit
	Duration time.Duration // from the request's header to the last byte of the response
}

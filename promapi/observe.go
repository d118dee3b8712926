package promapi

import (
	"context"
	"net/http"
	"time"
)

// Observation is what became of one request.
type Observation struct {
	Endpoint string   // its name in the API: query_range, label_values, read …
	Query    string   // the expression, where there is one
	Matchers []string // match[], or a remote read's matchers

	// Start and End are the range that was asked for; an instant query has its time in both. Zero
	// where the request has none.
	Start, End time.Time
	Step       time.Duration // of a range query

	Series   int   // series, names or values in the answer
	Samples  int64 // samples in the answer
	Read     int64 // samples the engine read
	Peak     int   // samples the engine held at once
	Bytes    int64 // of the answer's body, before compression
	Warnings []string
	Infos    []string

	Status int
	Err    *Error // nil: the request was answered
	// Lost is the error of writing an answer to a client that left, nil otherwise.
	Lost error

	Queued   time.Duration // waited for a turn and for Admit
	Duration time.Duration // from the request's header to the answer's last byte
}

// ObserveFunc hears of each request after its answer; the observation is the callee's to
// keep. The context is Admit's where the request was admitted.
type ObserveFunc func(context.Context, *http.Request, *Observation)

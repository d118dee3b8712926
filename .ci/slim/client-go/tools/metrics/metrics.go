// Package metrics has the metrics of client-go's requests, which nothing here makes.
package metrics

import (
	"context"
	"net/url"
	"time"
)

// A LatencyMetric receives the duration of a request.
type LatencyMetric interface {
	Observe(ctx context.Context, verb string, u url.URL, latency time.Duration)
}

// A ResultMetric receives the status of a response.
type ResultMetric interface {
	Increment(ctx context.Context, code, method, host string)
}

// RegisterOpts are the metrics.
type RegisterOpts struct {
	RequestLatency LatencyMetric
	RequestResult  ResultMetric
}

// Register has no effect.
func Register(RegisterOpts) {}

package main

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestBackendState exposes the last check, and nothing before the first one.
func TestBackendState(t *testing.T) {
	b := &backendState{}
	if n := testutil.CollectAndCount(b); n != 0 {
		t.Errorf("%d metrics before the first check", n)
	}
	for _, err := range []error{nil, errors.New("connection refused"), nil} {
		b.set(err)
		want := 1.0
		if err != nil {
			want = 0
		}
		if got := testutil.ToFloat64(b); got != want || b.isDown() != (err != nil) {
			t.Errorf("%v: the metric is %v", err, got)
		}
	}
}

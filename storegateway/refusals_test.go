package storegateway

import (
	"fmt"
	"testing"

	"github.com/taredb/tare/promapi"
	"github.com/taredb/tare/slab"
)

// TestRefusals exceeds each limit and checks the reason in the metrics.
func TestRefusals(t *testing.T) {
	for reason, err := range map[string]error{
		refusedQueryBytes:   &slab.LimitError{},
		refusedProcessBytes: &slab.LimitError{Short: true},
		refusedQueueTimeout: &QueueError{},
		refusedTenantQueue:  fmt.Errorf("%w: 3 wait", slab.ErrQueueFull),
		refusedQueueFull:    fmt.Errorf("%w: 3 wait", promapi.ErrTooMany),
		refusedSeries:       &LimitError{What: limitSeries},
		refusedChunks:       &LimitError{What: limitChunks},
		"":                  ErrNoTenant,
	} {
		if got := refusalOf(err); got != reason {
			t.Errorf("%v is counted as %q, want %q", err, got, reason)
		}
	}
}

package storegateway

import (
	"fmt"
	"testing"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/store/promapi"
)

// TestRefusals exceeds each limit and checks the reason in the metrics.
func TestRefusals(t *testing.T) {
	for reason, err := range map[string]error{
		refusedQueryBytes:   &slab.LimitError{},
		refusedProcessBytes: &slab.LimitError{Short: true},
		refusedQueueTimeout: &queueError{},
		refusedTenantQueue:  fmt.Errorf("%w: 3 wait", slab.ErrQueueFull),
		refusedQueueFull:    fmt.Errorf("%w: 3 wait", promapi.ErrTooMany),
		refusedSeries:       &LimitError{What: limitSeries},
		refusedChunks:       &LimitError{What: limitChunks},
		"":                  errNoTenant,
	} {
		if got := refusalOf(err); got != reason {
			t.Errorf("%v is counted as %q, want %q", err, got, reason)
		}
	}
}

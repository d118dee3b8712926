package copier

import (
	"context"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
)

// Hooks of the external tests.

// RefuseSharedServers refuses parts of a split whose targets are one server.
func RefuseSharedServers(ctx context.Context, parts []Options) error {
	return refuseSharedServers(ctx, parts)
}

// Show makes m show a status, as of a time.
func (m *Metrics) Show(now time.Time, status func() telemetry.Status) {
	m.from(status)
	m.now = func() time.Time { return now }
}

// Finish ends a split or merge that follows.
func (s *Split) Finish() error { return s.finish() }

// SliceBytes is the size of a batch with a limit.
const SliceBytes = sliceBytes

// A SwapFunc is a Swap without an ALTER TABLE, which accepts no requests.
type SwapFunc func(context.Context, *Swapping) error

// Run calls f.
func (f SwapFunc) Run(ctx context.Context, s *Swapping) error { return f(ctx, s) }

// Phase returns the phase of a copy.
func (SwapFunc) Phase() telemetry.RunPhase { return telemetry.RunFollowing }

// Status returns nil.
func (SwapFunc) Status() *telemetry.AlterStatus { return nil }

// Proceed returns an error.
func (SwapFunc) Proceed() error { return errNothingWaits }

// Revert returns an error.
func (SwapFunc) Revert(bool) error { return ErrNotSwapped }

// Finish returns an error.
func (SwapFunc) Finish() error { return ErrSwaps }

package copier_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/move/copier"
)

// TestManualCutover follows with a cutover without a gateway: the steps by hand are reported once the target has caught up.
func TestManualCutover(t *testing.T) {
	p := newPair(t, "byhand")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
	for _, byHand := range []bool{true, false} {
		o := p.options("a")
		o.Follow = true
		if o.UntilCaughtUp = !byHand; byHand {
			o.Cutover = &cutover.Options{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var steps atomic.Int32
		o.Observe = func(e telemetry.Event) {
			if e.Kind == telemetry.EventCutover && strings.Contains(e.Text, "To switch without a gateway") {
				steps.Add(1)
				cancel()
			}
		}
		_, err := copier.Run(ctx, o)
		if errors.Is(err, context.Canceled) != byHand || !byHand && err != nil || (steps.Load() == 1) != byHand {
			t.Errorf("by hand: %t: %v, the steps were reported %d times", byHand, err, steps.Load())
		}
		cancel()
	}
}

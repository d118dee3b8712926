package copier

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/mysql/rowstream"
)

// The verifyPhase compares the rows of both sides: once after the rows are copied, or, while changes are followed, beside them.
type verifyPhase struct {
	*job
	monitor  *monitor
	snapshot rowstream.View
	reports  []*verify.Report // by table, once they are compared
}

// once compares the rows of a copy that has not followed changes.
func (p *verifyPhase) once(ctx context.Context) (err error) {
	p.monitor.setPhase(telemetry.RunVerifying)
	p.reports, err = verify.Once(ctx, p.options())
	return err
}

// follow follows the source and compares rows concurrently if the copy verifies.
func (p *verifyPhase) follow(ctx context.Context, f *follow.Follower) error {
	if !p.o.Verify {
		p.o.part.endTogether(f)
		return f.Run(ctx)
	}
	v := verify.NewFollowing(p.options(), f)
	may := f.MayEnd
	f.MayEnd = func() bool { return may() && v.Passed() }
	p.o.part.endTogether(f)
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var comparing sync.WaitGroup
	verifying, stop := context.WithCancel(following)
	comparing.Go(func() {
		if err := v.Run(verifying); err != nil {
			cancel(endError{fmt.Errorf("verify while following: %w", err)})
		}
	})
	err := f.Run(following)
	stop()
	comparing.Wait()
	var reported endError
	if err != nil && errors.As(context.Cause(following), &reported) {
		err = reported.error
	}
	p.reports = v.Result()
	return err
}

// options returns the options of a comparison.
func (p *verifyPhase) options() verify.Options {
	return verify.Options{
		Source: p.from, View: p.snapshot, Tables: p.tables, To: p.to, State: p.state, Writer: p.newWriter,
		Tuning: p.o.Tuning, Pacer: p.pacer, Observe: p.o.Observe, Started: p.monitor.compares,
	}
}

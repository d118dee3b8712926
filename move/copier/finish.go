package copier

import (
	"context"

	"github.com/taredb/tare/internal/move/state"
)

// The finishPhase completes the target once it has all rows.
type finishPhase struct {
	*job
	objects  *schemaObjects
	handOver *handOverPhase
}

// run creates the foreign keys, and completes the schemas.
func (p *finishPhase) run(ctx context.Context) error {
	return inOrder(ctx, (&foreignKeys{p.job}).add, p.completeSchemas)
}

// completeSchemas raises the counters and sequences and creates the triggers, unless a cutover did so during the pause.
func (p *finishPhase) completeSchemas(ctx context.Context) error {
	if p.handOver.past() || p.handOver.made() {
		return nil
	}
	return inOrder(ctx, p.raiseCounters, p.objects.createLast)
}

// raiseCounters copies the AUTO_INCREMENT counters to the target at the end of a copy.
func (p *finishPhase) raiseCounters(ctx context.Context) error {
	w := p.newWriter()
	defer w.Close()
	return state.RaiseCounters(ctx, p.from, p.tables, w, p.o.Patience)
}

package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/rowstream"
)

// A merge copies tables of several sources to one target as one operation: each part is the copy of one source, with a separate
// state, lease, heartbeats and position there. The specs of its tables have an Owner (tabledef.AddMerge), so that each part writes
// only the rows that belong to its source.
//
// The parts are prepared one after the other, and none writes a row before all are prepared. So each part finds a target
// that is empty, or that has the rows of a merge that it resumes:
//
//	part 1: describe ──> lease ──> --restart empties the target for all ──> create ──> record ─┐
//	part 2:                                                        describe ──> lease ──> record ─┴──> rows ──> changes
//
// Secondary indexes are kept, because a part that has copied its rows cannot build them while others write. Tables with foreign keys are
// refused.

// NewMerge returns a Split whose parts are the copies of several sources to one target. names are the addresses of the sources. The parts
// must follow their sources, switch no clients, and have no control socket. Events of one part have Event.From.
func NewMerge(parts []Options, names []string, control string, observe func(telemetry.Event)) (*Split, error) {
	if err := mergeable(parts); err != nil {
		return nil, err
	}
	s, err := NewSplit(joinParts(parts), control, observe)
	if err != nil {
		return nil, err
	}
	s.merges, s.meeting = true, nil
	for i, p := range s.parts {
		p.from, p.last.From = names[i], names[i]
	}
	return s, nil
}

// PlanMerge returns the plan of each part of a merge, or the error that its run would return.
func PlanMerge(ctx context.Context, parts []Options, names []string) (all [][]PlannedTable, err error) {
	if err := mergeable(parts); err != nil {
		return nil, err
	}
	for i, o := range joinParts(parts) {
		planned, err := Plan(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("copy from %s: %w", names[i], err)
		}
		all = append(all, planned)
	}
	return all, nil
}

// mergeable returns an error for parts that are no merge.
func mergeable(parts []Options) error {
	for i := range parts {
		o := &parts[i]
		if o.Cutover != nil || o.part.handover() != nil {
			return errors.New("a merge has no cutover: clients of one server are switched, or writes to one source stopped; end it with Finish while no client writes to the sources")
		}
		if slices.ContainsFunc(o.Tables, func(s tabledef.Spec) bool { return s.Lookup != nil }) {
			return errors.New("a merge has no lookup tables, which are of one source: its tables have an owner by hash or range")
		}
		if o.To.Addr != parts[0].To.Addr || !o.Follow || len(o.Tables) != len(parts[0].Tables) ||
			slices.ContainsFunc(o.Tables, func(s tabledef.Spec) bool { return s.Owner == nil || s.Owner.Source != i }) {
			return errors.New("a part of a merge follows its source to the target of the others, and has owners of the same tables")
		}
	}
	return nil
}

// joinParts returns the options of the parts, with the state that they share.
func joinParts(parts []Options) []Options {
	m := &merging{turn: make(chan struct{}, 1), applies: make(chan struct{}, 1), prepared: make([]chan struct{}, len(parts)), first: make(map[string]*rowstream.Table)}
	all := slices.Clone(parts)
	for i := range all {
		m.prepared[i] = make(chan struct{})
		all[i].merge, all[i].KeepIndexes = &mergePart{merging: m, number: i}, true
	}
	return all
}

// A merging is the state that the parts of a merge share.
type merging struct {
	turn     chan struct{}   // a semaphore: acquired while a part is prepared
	applies  chan struct{}   // follow.Options.Turn
	prepared []chan struct{} // closed once a part was prepared for the first time

	mu    sync.Mutex
	first map[string]*rowstream.Table // under mu: definitions of the part that was described first, by target
}

// A mergePart is the part of a merge that a run is. Its methods do nothing if it is nil: the copy is no part of a merge.
type mergePart struct {
	*merging
	number int
	once   sync.Once
}

// enter blocks until the part may be prepared: the parts before it have been, and no other part is.
func (p *mergePart) enter(ctx context.Context) (leave func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	if p.number > 0 {
		if err := awaitClosed(ctx, p.prepared[p.number-1]); err != nil {
			return nil, err
		}
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() { <-p.turn }), nil
}

// ready records that the part is prepared, and blocks until all are.
func (p *mergePart) ready(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.once.Do(func() { close(p.prepared[p.number]) })
	for _, other := range p.prepared {
		if err := awaitClosed(ctx, other); err != nil {
			return err
		}
	}
	return nil
}

func awaitClosed(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// applying returns the semaphore for changes that are applied by one part at a time.
func (p *mergePart) applying() chan struct{} {
	if p == nil {
		return nil
	}
	return p.applies
}

// emptied reports whether another part has emptied the target tables for --restart.
func (p *mergePart) emptied() bool { return p != nil && p.number > 0 }

// sameDefinitions returns an error for tables that are defined differently than on the source that was described first.
func (p *mergePart) sameDefinitions(addr string, tables []*tabledef.Table) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tables {
		if t.Past() { // following ends at the change of its definition
			continue
		}
		first := p.first[t.Spec.Target()]
		if first == nil {
			p.first[t.Spec.Target()] = t.Source
			continue
		}
		if d := tabledef.MergeDifferences(first, t.Source); len(d) > 0 {
			return fmt.Errorf("merge %s: it is defined differently on the sources: there is %s, here is %s:\n  %s\nmake the definitions equal",
				t.Spec.Target(), t.Spec.Owner.Sources[0], addr, strings.Join(d, "\n  "))
		}
	}
	return nil
}

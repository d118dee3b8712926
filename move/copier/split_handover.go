package copier

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
)

// HandOver makes Run end with a handover: once all targets have caught up, and are compared if the parts verify, the source becomes
// read-only and all targets have everything that it has. Tables, Patience and Observe of o are set.
func (s *Split) HandOver(o cutover.HandoverOptions) (err error) {
	if s.merges {
		return errors.New("a merge has no handover: it would stop the writes to one of its sources")
	}
	for _, p := range s.parts {
		if p.o.UntilCaughtUp || p.o.Heartbeat.Off || p.o.Heartbeat.OnReplica {
			return errors.New("the handover of a split needs parts that follow until then, and heartbeats on a source that is no replica")
		}
	}
	first := s.parts[0].o // a copy
	if err := first.Validate(); err != nil {
		return err
	}
	o.Tables, o.Patience, o.Observe = slices.Clone(first.Tables), first.Patience, s.observe
	for i := range first.Tables {
		if l := first.Tables[i].Lookup; l != nil && !slices.ContainsFunc(o.Tables, func(t tabledef.Spec) bool { return strings.EqualFold(t.Source(), l.Source()) }) {
			o.Tables = append(o.Tables, tabledef.Spec{Schema: l.Schema, Name: l.Table})
		}
	}
	s.handover, err = cutover.NewHandover(o, len(s.parts))
	return err
}

// CheckHandover returns an error if the source's account may not stop the writes. It changes nothing.
func (s *Split) CheckHandover(ctx context.Context) error { return s.handover.Check(ctx) }

// begin runs the checks that precede all parts. It reports done if an earlier run has handed the tables over.
func (s *Split) begin(ctx context.Context, parts []Options) (done bool, err error) {
	if !s.merges {
		err = refuseSharedServers(ctx, parts)
	}
	if err != nil || s.handover == nil {
		return false, err
	}
	targets := make([]cutover.HandoverTarget, len(parts))
	for i := range parts {
		o := parts[i] // a copy
		if err := o.Validate(); err != nil {
			return false, err
		}
		targets[i] = cutover.HandoverTarget{Config: o.To, Schema: o.StateSchema, Tables: o.Tables}
	}
	return s.handover.Begin(ctx, targets, parts[0].Restart)
}

// handedOver adds the result of the handover to the reports, and creates those that are missing.
func (s *Split) handedOver(reports []*Report) []*Report {
	if s.handover == nil {
		return reports
	}
	result, _ := s.handover.Made()
	for i := range reports {
		if reports[i] == nil {
			reports[i] = &Report{Tables: []TableReport{}, NotCopied: []telemetry.NotCopied{}}
		}
		reports[i].Cutover = result
	}
	return reports
}

package alter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A CopyReport is the result of a copy.
type CopyReport struct {
	*copier.Report // null where an earlier run has swapped the tables

	Old          string    `json:"old"`           // the table with the former definition
	Kept         Kept      `json:"kept"`          // its state
	PauseSeconds float64   `json:"pause_seconds"` // from the request for the lock to the end of the swap, which bounds the wait of clients; 0: unknown
	SwapTries    []string  `json:"swap_tries"`    // errors of the tries of a swap before
	LockWaits    []float64 `json:"lock_waits"`    // seconds of the tries that did not get the lock

	SwapPosition string    `json:"swap_position,omitempty"` // of the binary log, before it
	Durations    Durations `json:"durations"`

	GatewayPauses       int     `json:"gateway_pauses"`        // of clients, through the gateway
	GatewayPauseSeconds float64 `json:"gateway_pause_seconds"` // the longest of them
}

// refuseCopy returns the reason why the table cannot be altered by a copy, whatever its columns; empty: it can.
func refuseCopy(s *Statement, t *rowstream.Table, references []string, version string) string {
	const longest = 64 // characters of a name
	switch {
	case len(t.Key) == 0:
		return keyless(t)
	case len(t.Triggers) > 0:
		return "it has triggers (" + strings.Join(t.Triggers, ", ") + "), which would stay with the old table"
	case len(references) > 0:
		return "foreign keys refer from or to it (" + strings.Join(references, ", ") + "), which would stay with the old table"
	case !session.IsMariaDB(version) && before(version, 8, 0, 13):
		return "MySQL before 8.0.13 renames no tables in a session that has locked them"
	case len([]rune(s.sentry())) > longest || len([]rune(s.old())) > longest:
		return fmt.Sprintf("its name is too long for %s", s.sentry())
	}
	for _, c := range s.Clauses {
		if c.notByCopy != "" {
			return fmt.Sprintf("clause %q: %s", c.Text, c.notByCopy)
		}
	}
	return ""
}

// keyless returns the reason why no key of a table identifies rows for a copy.
func keyless(t *rowstream.Table) string {
	var reasons []string
	for _, k := range createtable.Keys(t.Create) {
		if k.Kind != "PRIMARY KEY" && k.Kind != "UNIQUE KEY" {
			continue
		}
		name := k.Name
		if k.Kind == "PRIMARY KEY" {
			name = "PRIMARY"
		}
		reasons = append(reasons, "key "+name+" "+unusable(t, &k))
	}
	if len(reasons) == 0 {
		return "it has no primary or unique key, by which rows could be followed"
	}
	return "it has no key by which rows could be followed: " + strings.Join(reasons, "; ")
}

// unusable returns the reason why chunks cannot be cut by a unique key.
func unusable(t *rowstream.Table, k *createtable.Key) string {
	for _, part := range k.Parts {
		name := strings.TrimSuffix(part, " DESC")
		n := slices.IndexFunc(t.Columns, func(c rowstream.Column) bool { return strings.EqualFold(session.Ident(c.Name), name) })
		switch {
		case n < 0 && strings.HasSuffix(name, ")") && strings.HasPrefix(name, "`"):
			return "is of a prefix, " + name
		case n < 0:
			return "is of a value that is computed, " + name
		case t.Columns[n].Nullable:
			return "has the column " + name + ", which can be NULL"
		case !t.Columns[n].Keyable():
			return "has the column " + name + " of the type " + strings.ToUpper(t.Columns[n].Type) + ", which is sorted otherwise than SQL compares it"
		}
	}
	return "is invisible or ignored"
}

// findReferences finds the foreign keys of the table, and those of others that refer to it.
func (r *run) findReferences(ctx context.Context) error {
	schema, table := session.SchemaText(r.s.Schema), session.SchemaText(r.s.Table)
	_, err := r.c.Query(ctx, "SELECT DISTINCT CONCAT(CONSTRAINT_SCHEMA, '.', TABLE_NAME, '.', CONSTRAINT_NAME) FROM information_schema.REFERENTIAL_CONSTRAINTS"+
		" WHERE CONSTRAINT_SCHEMA = "+schema+" AND TABLE_NAME = "+table+" OR UNIQUE_CONSTRAINT_SCHEMA = "+schema+" AND REFERENCED_TABLE_NAME = "+table+" ORDER BY 1",
		func(row mysqlwire.TextRow) error {
			r.references = append(r.references, string(row[0]))
			return nil
		})
	if err != nil {
		err = fmt.Errorf("look for foreign keys of %s: %w", r.s.fullName(), err)
	}
	return err
}

// before reports whether a server's version is before another one.
func before(version string, major, minor, patch int) bool {
	var a, b, c int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &a, &b, &c); n < 3 {
		return true
	}
	return a < major || a == major && (b < minor || b == minor && c < patch)
}

// copy alters the table by a copy of its rows, and resumes one that was interrupted.
func (r *run) copy(ctx context.Context, report *Report) error {
	if reason := refuseCopy(r.s, r.t, r.references, r.c.ServerVersion); reason != "" {
		return fmt.Errorf("alter %s by a copy: %s%s", r.s.fullName(), reason, r.plain())
	}
	if r.g != nil && r.g.CopyRefused != "" {
		return fmt.Errorf("alter %s by a copy: %s%s", r.s.fullName(), r.g.CopyRefused, r.plain())
	}
	shadow, m, err := r.prepareShadow(ctx)
	if err != nil {
		return err
	}
	report.Copy = newCopyReport(r.s)
	g, err := r.openGateway(ctx)
	if err != nil {
		return err
	}
	w := r.newSwapper(report.Copy, g, r.s.shadow(), r.s.old())
	defer w.close()
	w.before = func(ctx context.Context, c *mysqlconn.Client, p binlog.Position) error {
		r.job.From = p.String()
		return jobRecords.save(ctx, c, r.s, r.job)
	}
	s := &swap{r: r, report: report.Copy, w: w, gate: newGate(r.o.Postpone), clock: newClock(&report.Copy.Durations, r.o.Observe)}
	o := r.o.copyOf(r.s.spec(m), s)
	o.KeepIndexes, o.Verify, o.Throttle = !strippable(shadow), true, r.o.Throttle
	o.Observe = func(e telemetry.Event) {
		if s.clock.observe(e); e.Kind == telemetry.EventDone {
			r.o.hooks.emit(hookEvent{Event: hookRowsCopied, Rows: e.Rows})
		}
	}
	r.o.Monitor.step(telemetry.StepCopying)
	report.Copy.Report, err = copier.Run(ctx, o)
	s.clock.lap(&report.Copy.Durations.Swap)
	report.Copy.SwapPosition = r.job.From
	if err != nil {
		_ = dropSentry(context.WithoutCancel(ctx), r.c, r.s) // otherwise the next run does
		if stop := new(binlog.StopError); errors.As(err, &stop) && stop.Reason == binlog.StopSchema {
			said := *stop
			said.Try = "that is a change " + shadowLacks
			err = &said
		}
		if errors.Is(err, state.ErrRows) {
			err = fmt.Errorf("%w; a value does not fit the new definition without a change: correct the rows and repeat the command, or discard it with option cancel", err)
		}
		return fmt.Errorf("alter %s by a copy: %w", r.s.fullName(), err)
	}
	return r.keep(ctx, report)
}

// A swap gives the shadow the name of the table, when the gate is open.
type swap struct {
	r      *run
	report *CopyReport
	w      *swapper
	gate   *gate
	clock  *clock
}

var _ copier.Swap = (*swap)(nil)

// Phase implements copier.Swap.
func (s *swap) Phase() telemetry.RunPhase { return telemetry.RunFollowing }

// ControlSocket returns the socket of the command, which the copy uses.
func (s *swap) ControlSocket() *control.Socket { return s.r.o.socket }

// Status implements copier.Swap.
func (s *swap) Status() *telemetry.AlterStatus { return s.r.o.Monitor.status() }

// Proceed lets a postponed swap begin.
func (s *swap) Proceed() error { return s.gate.open() }

// Revert returns an error: the tables are not swapped yet.
func (s *swap) Revert(bool) error { return control.ErrNotSwapped }

// Finish returns an error: the swap ends the copy.
func (s *swap) Finish() error { return control.ErrSwaps }

// Run swaps the tables. The chunks whose rows have changed while it was postponed are compared again before.
func (s *swap) Run(ctx context.Context, c *copier.Swapping) error {
	s.clock.lap(&s.report.Durations.Compare)
	s.r.o.hooks.emit(hookEvent{Event: hookReady})
	waited, err := s.gate.wait(ctx, c, s.w.postponed)
	if err == nil && waited {
		err = c.CompareAgain(ctx)
	}
	if err != nil {
		return err
	}
	if err := s.unaltered(ctx); err != nil {
		return err
	}
	return s.w.run(ctx, c)
}

// unaltered returns an error if the table was altered between its description and the position from which its changes are followed: later ones stop
// following. It uses another connection than the run's, which may have been idle for hours.
func (s *swap) unaltered(ctx context.Context) error {
	c, err := connect(ctx, s.r.o.On)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it has no open transaction
	t, err := rowstream.ReadTable(ctx, c, s.r.s.Schema, s.r.s.Table)
	if err != nil {
		return err
	}
	return s.r.sameDefinition(t)
}

func newCopyReport(s *Statement) *CopyReport {
	return &CopyReport{Old: s.Schema + "." + s.old(), SwapTries: []string{}, LockWaits: []float64{}}
}

// strippable reports whether all secondary indexes can be built after the rows, in their order.
func strippable(t *rowstream.Table) bool {
	n := 0
	for _, k := range createtable.Keys(t.Create) {
		if k.Kind != "PRIMARY KEY" && k.Kind != "UNIQUE KEY" {
			n++
		}
	}
	return n == len(tabledef.SecondaryIndexes(t))
}

// prepareShadow creates the shadow, or finds that of an interrupted run, and returns its mapping.
func (r *run) prepareShadow(ctx context.Context) (*rowstream.Table, *tabledef.Mapping, error) {
	spec := r.s.spec(nil)
	phase, _, err := state.State{Schema: Schema}.PhaseOf(ctx, r.c, &spec)
	if err != nil {
		return nil, nil, err
	}
	if r.job == nil {
		for _, name := range []string{r.s.shadow(), r.s.old(), r.s.reverted()} {
			exists, err := r.s.exists(ctx, r.c, name)
			if err != nil {
				return nil, nil, err
			}
			if exists {
				return nil, nil, fmt.Errorf("table %s.%s exists, and no unfinished tare alter is recorded: drop it, or rename it", r.s.Schema, name)
			}
		}
	}
	if err := dropSentry(ctx, r.c, r.s); err != nil {
		return nil, nil, err
	}
	if r.job == nil {
		r.job = &job{Clauses: r.s.Text, Fixed: make(map[string][]byte)}
		if err := jobRecords.save(ctx, r.c, r.s, r.job); err != nil {
			return nil, nil, err
		}
	}
	if phase == "" { // no row is copied
		r.job.Definition = definitionOf(r.t)
		if err := r.createShadow(ctx); err != nil {
			return nil, nil, err
		}
	} else if err := r.sameDefinition(r.t); err != nil {
		return nil, nil, fmt.Errorf("alter %s by a copy: %w", r.s.fullName(), err)
	}
	shadow, err := rowstream.ReadTable(ctx, r.c, r.s.Schema, r.s.shadow())
	if err != nil {
		return nil, nil, err
	}
	if shadow.Engine != "InnoDB" {
		return nil, nil, errors.Join(fmt.Errorf("the new definition has the engine %s: only InnoDB is supported", shadow.Engine), r.discard(ctx))
	}
	m, err := r.mapping(ctx, shadow, r.job.Fixed)
	if err == nil {
		return shadow, m, jobRecords.save(ctx, r.c, r.s, r.job)
	}
	if phase == "" {
		err = errors.Join(err, r.discard(ctx))
	}
	return nil, nil, fmt.Errorf("alter %s by a copy: %w", r.s.fullName(), err)
}

// definitionOf returns the definition of a table without its counter.
func definitionOf(t *rowstream.Table) string { return counterText.ReplaceAllString(t.Create, "") }

// shadowLacks is the advice after a change of the table that the shadow lacks. The swap would lose the change.
const shadowLacks = "which its shadow does not have: repeat the command with option restart"

// sameDefinition returns an error if the table was altered since the shadow was created.
func (r *run) sameDefinition(t *rowstream.Table) error {
	if r.job.Definition == "" || r.job.Definition == definitionOf(t) {
		return nil
	}
	return fmt.Errorf("the table was altered by another client since the copy was started, %s", shadowLacks)
}

// createShadow creates the shadow with the new definition.
func (r *run) createShadow(ctx context.Context) error {
	shadow := r.s.sqlName(r.s.shadow())
	for _, sql := range []string{"DROP TABLE IF EXISTS " + shadow, "CREATE TABLE " + shadow + " LIKE " + r.s.quotedName(), alters(shadow, r.s.Clauses, "")} {
		if _, err := r.c.Exec(ctx, sql); err != nil {
			return errors.Join(fmt.Errorf("create the shadow table %s: %w", shadow, err), r.discard(ctx))
		}
	}
	return nil
}

// mapping returns the mapping to a table with the new definition. fixed is as for mapper.
func (r *run) mapping(ctx context.Context, target *rowstream.Table, fixed map[string][]byte) (*tabledef.Mapping, error) {
	p, err := r.mapper(ctx, r.s.Text, r.s.origin, target, fixed)
	if err != nil {
		return nil, err
	}
	return p.newMapping(r.t, target)
}

// mapper returns a mapper to a table. Values of added columns that are not in fixed are found out, and added to it.
func (r *run) mapper(ctx context.Context, text string, origin func(string) (string, bool), target *rowstream.Table, fixed map[string][]byte) (*mapper, error) {
	utc, err := inUTC(ctx, r.c)
	if err != nil {
		return nil, fmt.Errorf("read the server's time zone: %w", err)
	}
	d := &defaulter{c: r.c, target: target, name: session.Ident(Schema) + "." + session.Ident(newJudge(r.c, r.s, target).name+"_row")}
	return &mapper{text: text, origin: origin, utc: utc, fixed: func(column *rowstream.Column) (value []byte, err error) {
		name := strings.ToLower(column.Name)
		value, known := fixed[name]
		if !known {
			if value, err = d.value(ctx, column); err == nil {
				fixed[name] = value
			}
		}
		return value, err
	}}, nil
}

// discard drops the shadow, and all that is recorded of it.
func (r *run) discard(ctx context.Context) error {
	if err := dropSentry(ctx, r.c, r.s); err != nil {
		return err
	}
	if _, err := r.c.Exec(ctx, "DROP TABLE IF EXISTS "+r.s.sqlName(r.s.shadow())); err != nil {
		return fmt.Errorf("drop the shadow table: %w", err)
	}
	return forgetJob(ctx, r.c, r.s)
}

// resume continues an interrupted run at the stage that its tables show.
func (r *run) resume(ctx context.Context) (err error) {
	if err := r.findStage(ctx); err != nil {
		return err
	}
	if r.stage > stageSwapped || r.stage == stageSwapped && r.job.over() && r.job.Clauses != r.s.Text {
		if err := r.forgetOld(ctx); err != nil {
			return err
		}
		r.stage, r.job = stageNone, nil
	}
	switch {
	case r.stage == stageNone:
		return nil
	case r.stage == stageSwapped && r.job.Clauses != r.s.Text:
		return fmt.Errorf("the old table %s.%s of %q is kept%s for tare alter revert: tare alter finish with option table %s drops it",
			r.s.Schema, r.s.old(), r.job.Clauses, r.job.until(), r.s.fullName())
	case r.stage == stageSwapped:
		return nil
	case r.o.Restart:
		r.stage, r.job = stageNone, nil
		return r.discard(ctx)
	case r.job.Clauses != r.s.Text:
		return fmt.Errorf("a copy of %s for %q is not finished: repeat its command to resume it, or discard it with option restart", r.s.fullName(), r.job.Clauses)
	}
	return nil
}

// A gate keeps a postponed swap back.
type gate struct {
	once sync.Once
	pass chan struct{} // closed to swap
}

func newGate(closed bool) *gate {
	g := &gate{pass: make(chan struct{})}
	if !closed {
		_ = g.open()
	}
	return g
}

// open lets the swap begin.
func (g *gate) open() error {
	g.once.Do(func() { close(g.pass) })
	return nil
}

// wait blocks until the gate is open. If that takes a request it calls postponed, and returns true.
func (g *gate) wait(ctx context.Context, c *copier.Swapping, postponed func()) (waited bool, err error) {
	select {
	case <-g.pass:
		return false, nil
	default:
	}
	postponed()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-g.pass:
			return true, nil
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-poll.C:
			if err := c.Err(); err != nil {
				return true, err
			}
		}
	}
}

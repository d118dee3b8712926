package alter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/rowstream"
)

// A queue alters several tables, one after the other. All are checked before the first is altered:
//
//	entries ──> each: record, definition, probe ──> any refused: end ──> each: recorded, altered, recorded as done ──> first failure: end
//
// The same queue resumes: an entry is done if its record says so and the table still has the definition that it had then. A run that was
// killed between the server's work and that record is recognized by the definition that the probe had.

// A QueueEntry is a line of a queue.
type QueueEntry struct {
	Line          int
	Schema, Table string
	Clauses       string
}

// A QueueItem is the result of an entry.
type QueueItem struct {
	Line   int                  `json:"line"`
	Table  string               `json:"table"`
	Alter  string               `json:"alter"`
	State  telemetry.QueueState `json:"state"`
	Why    string               `json:"why,omitempty"`    // with earlier: how it was recognized
	Error  string               `json:"error,omitempty"`  // with failed and refused
	Plan   *Plan                `json:"plan,omitempty"`   // of CheckQueue; null where a copy is resumed
	Report *Report              `json:"report,omitempty"` // with done
}

// A QueueReport is the result of a queue.
type QueueReport struct {
	Items   []QueueItem `json:"items"`
	Seconds float64     `json:"seconds"`
}

// Count returns the number of items in a state.
func (r *QueueReport) Count(s telemetry.QueueState) (n int) {
	for i := range r.Items {
		if r.Items[i].State == s {
			n++
		}
	}
	return n
}

// maxQueueLine is the longest line of a queue in bytes.
const maxQueueLine = 1 << 20

// ParseQueue parses a queue: a line per table, "schema.table: clauses". Empty lines and those that start with # are ignored. Its error has
// a line for each that is refused.
func ParseQueue(text string) (entries []QueueEntry, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, maxQueueLine)
	var refused []error
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, err := parseEntry(line)
		if err != nil {
			refused = append(refused, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		e.Line = n
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil {
		refused = append(refused, err)
	}
	if len(entries) == 0 && len(refused) == 0 {
		return nil, errors.New("no alteration in it: want lines such as shop.orders: ADD COLUMN note VARCHAR(200)")
	}
	return entries, errors.Join(refused...)
}

func parseEntry(line string) (e QueueEntry, err error) {
	name, clauses, ok := strings.Cut(line, ":")
	if !ok {
		return e, fmt.Errorf("want schema.table: clauses, not %.60q", line)
	}
	if e.Schema, e.Table, err = rowstream.ParseTable(strings.TrimSpace(name)); err != nil {
		return e, err
	}
	e.Clauses = strings.TrimSpace(clauses)
	_, err = Parse(e.Schema, e.Table, e.Clauses)
	return e, err
}

// A queue is the work of RunQueue.
type queue struct {
	o       *Options
	entries []QueueEntry
	report  *QueueReport
}

func newQueue(o *Options, entries []QueueEntry) (*queue, error) {
	if len(entries) == 0 {
		return nil, errors.New("no table to alter")
	}
	q := &queue{o: o, entries: entries, report: &QueueReport{}}
	for _, e := range entries {
		q.report.Items = append(q.report.Items, QueueItem{Line: e.Line, Table: e.Schema + "." + e.Table, Alter: e.Clauses, State: telemetry.QueueWaiting})
	}
	first := q.options(0)
	if err := first.validate(); err != nil {
		return nil, err
	}
	o.Monitor, o.Observe = first.Monitor, first.Observe
	return q, nil
}

// options returns the options of an entry.
func (q *queue) options(i int) Options {
	o := *q.o
	o.Schema, o.Table, o.Clauses = q.entries[i].Schema, q.entries[i].Table, q.entries[i].Clauses
	o.RevertWindow, o.Swapped = 0, nil
	return o
}

// set sets the state of an entry, for reports and pages.
func (q *queue) set(i int, s telemetry.QueueState) {
	q.report.Items[i].State = s
	items := make([]telemetry.QueueItem, len(q.report.Items))
	for n, x := range q.report.Items {
		items[n] = telemetry.QueueItem{Line: x.Line, Table: x.Table, State: x.State}
	}
	q.o.Monitor.queued(items)
}

// CheckQueue returns what RunQueue would do, and an error if it would refuse an entry. It executes the clauses on probes.
func CheckQueue(ctx context.Context, o Options, entries []QueueEntry) (*QueueReport, error) {
	began := time.Now()
	q, err := newQueue(&o, entries)
	if err != nil {
		return nil, err
	}
	err = q.check(ctx)
	q.report.Seconds = time.Since(began).Seconds()
	return q.report, err
}

// RunQueue alters tables, one after the other, unless an entry is refused. It ends at the first failure, and returns the report too. Old
// tables are kept, and no changes are followed back into them.
func RunQueue(ctx context.Context, o Options, entries []QueueEntry, done func(*QueueItem)) (_ *QueueReport, err error) {
	began := time.Now()
	defer o.withHooks()()
	defer func() { o.hooks.failed(err) }()
	q, err := newQueue(&o, entries)
	if err != nil {
		return nil, err
	}
	ctx, end, err := o.listen(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { end(err) }()
	if err = q.check(ctx); err == nil {
		err = q.run(ctx, done)
	}
	q.report.Seconds = time.Since(began).Seconds()
	return q.report, aborted(ctx, err)
}

// check checks all entries.
func (q *queue) check(ctx context.Context) error {
	var refused []error
	lines := make(map[string]int) // by table, as the server names it
	for i := range q.entries {
		item := &q.report.Items[i]
		err := q.checkEntry(ctx, i)
		if first, twice := lines[item.Table]; err == nil && twice {
			err = fmt.Errorf("the table is in line %d too: join the clauses with commas", first)
		}
		lines[item.Table] = item.Line
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			item.Error = err.Error()
			q.set(i, telemetry.QueueRefused)
			refused = append(refused, fmt.Errorf("line %d: %s: %w", item.Line, item.Table, err))
		}
	}
	return errors.Join(refused...)
}

// checkEntry checks an entry, which may be done.
func (q *queue) checkEntry(ctx context.Context, i int) error {
	o, item := q.options(i), &q.report.Items[i]
	q.set(i, telemetry.QueueWaiting)
	r, err := openTable(ctx, &o)
	if err != nil {
		return err
	}
	defer r.close()
	item.Table = r.s.fullName()
	known, err := loadRecord[queued](ctx, r.c, queueRecords, r.s)
	if err != nil {
		return err
	}
	if item.Why, err = known.done(r); err != nil {
		return err
	}
	if item.Why != "" {
		q.set(i, telemetry.QueueEarlier)
		return nil
	}
	if err := r.judge(ctx); err != nil || r.job != nil {
		return err
	}
	if item.Plan = r.plan(); item.Plan.Way == WayNone {
		return fmt.Errorf("%s%s", item.Plan.Why, known.changed(r))
	}
	return nil
}

// run executes the entries that are not done.
func (q *queue) run(ctx context.Context, done func(*QueueItem)) error {
	for i := range q.entries {
		item := &q.report.Items[i]
		item.Plan = nil // it is part of the report
		if item.State == telemetry.QueueEarlier {
			done(item)
			continue
		}
		q.set(i, telemetry.QueueRunning)
		q.o.Observe(telemetry.Event{Kind: telemetry.EventAlter, Text: fmt.Sprintf("%d of %d in the queue: %s", i+1, len(q.entries), item.Table)})
		var err error
		if item.Report, err = q.execute(ctx, i); err != nil {
			err = aborted(ctx, err)
			item.Error = err.Error()
			q.set(i, telemetry.QueueFailed)
			return fmt.Errorf("line %d: %w", item.Line, err)
		}
		q.set(i, telemetry.QueueDone)
		done(item)
	}
	return nil
}

// execute alters the table of an entry, and records that.
func (q *queue) execute(ctx context.Context, i int) (*Report, error) {
	o, began := q.options(i), time.Now()
	r, err := open(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	known := &queued{Clauses: r.s.Text, Before: definition(r.t.Create)}
	if r.job == nil {
		if r.probed != nil {
			known.After = bareDefinition(r.probed.Create)
		}
		if err := queueRecords.save(ctx, r.c, r.s, known); err != nil {
			return nil, err
		}
	}
	report, err := r.execute(ctx, began)
	if err != nil {
		return nil, err
	}
	if err := r.reconnect(ctx); err != nil {
		return nil, err
	}
	is, err := rowstream.ReadTable(ctx, r.c, r.s.Schema, r.s.Table)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	known.Done, known.Definition = &now, definition(is.Create)
	return report, queueRecords.save(ctx, r.c, r.s, known)
}

// A queued is the record of an entry in the altered server.
type queued struct {
	Clauses    string     `json:"clauses"`
	Before     string     `json:"before"`               // the definition before it
	After      string     `json:"after,omitempty"`      // the bare definition of the probe after it; empty: unknown
	Done       *time.Time `json:"done,omitempty"`       // null: it was not seen to be done
	Definition string     `json:"definition,omitempty"` // the definition then
}

// done returns how an entry is recognized as done; empty: it is not done.
func (k *queued) done(r *run) (why string, err error) {
	if r.stage == stageSwapped && r.job.Kept != nil {
		return "an earlier run has swapped the tables; the old one is kept" + r.job.until(), nil
	}
	if r.job != nil || k == nil || k.Clauses != r.s.Text {
		return "", nil
	}
	is := definition(r.t.Create)
	switch {
	case k.Done != nil && is == k.Definition:
		return "an earlier run has done it at " + k.Done.Format(secondText), nil
	case k.Done != nil || is == k.Before:
		return "", nil
	case k.After != "" && bareDefinition(is) == k.After:
		return "an earlier run was stopped when the server had done it", nil
	}
	return "", errors.New("an earlier run was stopped within it, and the definition is neither the one before nor the one of the probe after it: compare it by hand, and remove the line if it is done")
}

// changed adds to a refusal that an entry was done before.
func (k *queued) changed(r *run) string {
	if k == nil || k.Done == nil || k.Clauses != r.s.Text {
		return ""
	}
	return "; an earlier run has done it at " + k.Done.Format(secondText) + ", and the definition has changed since"
}

// definition returns a definition without the counter of AUTO_INCREMENT.
func definition(create string) string { return counterText.ReplaceAllString(create, "") }

// bareDefinition returns a definition without the names that a table created by LIKE does not share, and without foreign keys.
func bareDefinition(create string) string {
	var lines []string
	for line := range strings.Lines(definition(create)) {
		line = strings.TrimRight(line, ",\n")
		if strings.HasPrefix(line, "CREATE TABLE ") || strings.Contains(line, " FOREIGN KEY (") && strings.HasPrefix(line, "  CONSTRAINT ") {
			continue
		}
		lines = append(lines, namedCheck.ReplaceAllString(line, "  CHECK "))
	}
	return strings.Join(lines, "\n")
}

// listen opens the control socket, unless it is open. A request to abort or to cancel ends the context that it returns.
func (o *Options) listen(ctx context.Context) (_ context.Context, end func(error), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	if o.Control == "" || o.socket != nil {
		return ctx, func(error) { cancel(nil) }, nil
	}
	o.socket, err = control.Open(o.Control, control.SocketOptions{
		Status: o.Monitor.Status, Abort: func() { cancel(control.ErrAborted) }, Observe: o.Observe,
		Cancel: func() error {
			if o.Monitor.status().Old != nil {
				return errTooLate
			}
			cancel(ErrCancelled)
			return nil
		},
	})
	if err != nil {
		cancel(err)
		return nil, nil, err
	}
	return ctx, func(result error) {
		o.socket.Close(result)
		cancel(nil)
	}, nil
}

// aborted returns the error of a request to abort, which is the cause of whatever failed by it.
func aborted(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), control.ErrAborted) {
		return control.ErrAborted
	}
	return err
}

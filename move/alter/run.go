package alter

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Report is the result of an ALTER TABLE.
type Report struct {
	Table  string `json:"table"`
	Alter  string `json:"alter"`  // the clauses, as they were given
	Server string `json:"server"` // its version

	Way Way    `json:"way"`
	Why string `json:"why"`

	Tries     int       `json:"tries"`      // of statements that wait for the table's lock
	LockWaits []float64 `json:"lock_waits"` // seconds of the tries that did not get it
	Seconds   float64   `json:"seconds"`    // of all

	Judgement *Judgement  `json:"judgement"` // null where a copy was resumed
	Copy      *CopyReport `json:"copy,omitempty"`
}

// A run is one ALTER TABLE.
type run struct {
	o *Options
	s *Statement
	c *mysqlconn.Client
	t *rowstream.Table
	g *Judgement // nil where a copy is resumed

	probed *rowstream.Table // the probe, altered by all clauses; nil: they were not executed
	added  *addedKey        // nil: no unique key is added by which rows could be equal

	references []string // foreign keys of the table, and those that refer to it

	job   *job // of a copy that an earlier run has begun; nil: there is none
	stage stage
}

// A stage is how far a copy has come, as seen by its tables.
type stage int

const (
	stageNone     stage = iota
	stageCopying        // the tables are not swapped
	stageSwapped        // the old table is kept
	stageReverted       // the tables were swapped back, and the new one is left
	stageDropped        // the old table was dropped, by a run that was killed then or by another client
)

// errBusy means that another process alters the table.
var errBusy = errors.New("another tare alter is at work")

// open opens the table, and has the clauses judged.
func open(ctx context.Context, o *Options) (*run, error) {
	r, err := openTable(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := r.judge(ctx); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// openTable parses the statement, connects, and takes the lock of the table's alterations, which the connection holds.
func openTable(ctx context.Context, o *Options) (r *run, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r = &run{o: o}
	if r.s, err = Parse(o.Schema, o.Table, o.Clauses); err != nil {
		return nil, err
	}
	o.Monitor.begin(o.On.Addr, r.s.fullName(), r.s.Text)
	if r.c, err = connect(ctx, o.On); err != nil {
		return nil, err
	}
	if err = o.Monitor.connected(ctx, r.c); err == nil {
		err = r.prepare(ctx)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *run) close() { _ = r.c.Close() } // releases its locks

func (r *run) prepare(ctx context.Context) (err error) {
	if err := checkMode(ctx, r.c, r.s); err != nil {
		return err
	}
	if err := r.fold(ctx); err != nil {
		return err
	}
	if err := r.lock(ctx); err != nil {
		return err
	}
	if err := r.resume(ctx); err != nil {
		return err
	}
	if r.t, err = rowstream.ReadTable(ctx, r.c, r.s.Schema, r.s.Table); err != nil {
		return err
	}
	if err := r.findReferences(ctx); err != nil {
		return err
	}
	if r.t.Engine != "InnoDB" {
		return fmt.Errorf("table %s uses %s: only InnoDB tables are altered; ALTER TABLE %s ENGINE=InnoDB first", r.s.fullName(), r.t.Engine, r.s.quotedName())
	}
	return nil
}

// judge executes the clauses on a probe, unless a copy is resumed.
func (r *run) judge(ctx context.Context) (err error) {
	if r.job != nil {
		return nil
	}
	j := newJudge(r.c, r.s, r.t)
	defer func() { r.probed = j.after }()
	if r.g, err = j.judge(ctx); err != nil {
		return err
	}
	if r.g.CopyRefused = refuseCopy(r.s, r.t, r.references, r.c.ServerVersion); r.g.CopyRefused == "" && j.after != nil {
		switch m, err := r.mapping(ctx, j.after, make(map[string][]byte)); {
		case state.IsUnreachable(err): // no reason against a copy
			return err
		case err != nil:
			r.g.CopyRefused = r.duplicates(ctx, m, err)
		default:
			if _, r.g.Revert, err = r.wayBack(ctx, r.t, j.after, make(map[string][]byte)); err != nil {
				return err
			}
		}
	}
	if r.g.CopyRefused == "" {
		if r.g.CopyRefused, err = slowCommits(ctx, r.c, r.o.MaxLockWait); err != nil {
			return err
		}
	}
	if r.g.CopyRefused != "" && r.g.Whole.Error == "" {
		r.g.Plain = alters(r.s.quotedName(), r.s.Clauses, plainAlgorithm(&r.g.Whole))
	}
	r.g.Notes = append(r.g.Notes, checkNotes(r.t, r.c.ServerVersion)...)
	return nil
}

// lock takes the lock of the table's alterations, and returns when the server executes no statement of an earlier run's swap any more.
func (r *run) lock(ctx context.Context) error {
	got, err := session.QueryValue(ctx, r.c, "SELECT COALESCE(GET_LOCK("+session.Literal(lockName(r.s))+", 2), 0)")
	if err != nil {
		return fmt.Errorf("lock alterations of %s: %w", r.s.fullName(), err)
	}
	if got != "1" {
		return fmt.Errorf("%w on %s: wait for it, or stop it; while it follows changes back, use tare alter ctl revert, or finish", errBusy, r.s.fullName())
	}
	if err := session.Set(ctx, r.c, session.Int("wait_timeout", 31536000)); err != nil { // it may be idle for as long as a copy takes
		return fmt.Errorf("prepare the connection to the server: %w", err)
	}
	for _, role := range swapRoles {
		if err := state.AwaitLock(ctx, r.c, swapLock(r.s, role), 2*r.o.MaxLockWait); err != nil {
			return fmt.Errorf("wait for the end of an earlier swap of %s: %w", r.s.fullName(), err)
		}
	}
	return nil
}

// fold gives the names the case that the server has for them, where it knows one only.
func (r *run) fold(ctx context.Context) error {
	fold, err := session.QueryValue(ctx, r.c, "SELECT @@lower_case_table_names")
	if err == nil && fold != "0" {
		r.s.Schema, r.s.Table = strings.ToLower(r.s.Schema), strings.ToLower(r.s.Table)
	}
	return err
}

// namedCheck matches a CHECK constraint with a user-given name in the text of SHOW CREATE TABLE.
var namedCheck = regexp.MustCompile("(?m)^  CONSTRAINT (`(?:[^`]|``)+`) CHECK ")

// checkNotes names CHECK constraints that get other names by a copy.
func checkNotes(t *rowstream.Table, version string) (notes []string) {
	if session.IsMariaDB(version) {
		return nil
	}
	for _, m := range namedCheck.FindAllStringSubmatch(t.Create, -1) {
		if !strings.HasPrefix(m[1], "`"+t.Name+"_chk_") {
			notes = append(notes, "by a copy, MySQL gives the constraint "+m[1]+" another name, since names of constraints are unique in a schema")
		}
	}
	return notes
}

func lockName(s *Statement) string {
	return fmt.Sprintf("tare.alter.%x", sha1.Sum([]byte(s.fullName())))
}

// swapRoles are the parts of a swap's sessions.
var swapRoles = [...]string{"keeper", "switcher", "observer"}

// swapLock returns the name of the lock of a session of a swap, for as long as the server executes its statements.
func swapLock(s *Statement, role string) string { return lockName(s) + "." + role }

// A Plan predicts the steps of Run.
type Plan struct {
	Table  string `json:"table"`
	Alter  string `json:"alter"` // the clauses, as they were given
	Server string `json:"server"`
	Way    Way    `json:"way"` // that is tried first
	Why    string `json:"why"`
	*Judgement
}

// Lint returns what Run would do. It executes the clauses on a probe, and changes nothing else.
func Lint(ctx context.Context, o Options) (*Plan, error) {
	r, err := open(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	switch r.stage {
	case stageCopying:
		return nil, fmt.Errorf("a copy of %s for %q is not finished: repeat its command to resume it, or discard it with option restart", r.s.fullName(), r.job.Clauses)
	case stageSwapped:
		return nil, fmt.Errorf("an earlier run has altered %s by %q, and its old table is kept%s", r.s.fullName(), r.job.Clauses, r.job.until())
	}
	return r.plan(), nil
}

// plan returns the way that is tried first.
func (r *run) plan() *Plan {
	p := &Plan{Table: r.s.fullName(), Alter: r.s.Text, Server: r.c.ServerVersion, Judgement: r.g}
	if p.Way, p.Why = r.o.choose(r.g); p.Way == WayCopy && r.g.CopyRefused != "" {
		p.Way, p.Why = WayNone, p.Why+"; and a copy is refused: "+r.g.CopyRefused+r.plain()
	}
	return p
}

// plainAlgorithm returns the clauses of the best algorithm that a probe has shown.
func plainAlgorithm(v *Verdict) string {
	for _, a := range attempts {
		if a.algorithm == v.Algorithm && a.lock == v.Lock {
			return a.sql
		}
	}
	return ""
}

// plain returns the part of an error that names the ALTER TABLE which does what a copy does not; empty: none is known.
func (r *run) plain() string {
	if r.g == nil || r.g.Plain == "" {
		return ""
	}
	effect := ""
	switch r.g.Whole.Lock {
	case "shared":
		effect = ", and blocks writes meanwhile"
	case "none":
		effect = ", while writes continue"
	}
	return "; the server does it by " + r.g.Plain + effect
}

// Run alters the table.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	began := time.Now()
	defer o.withHooks()()
	defer func() { o.hooks.failed(err) }()
	r, err := open(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	o.Monitor.Copy.Heap.Definitions.Add(runBytes)
	defer o.Monitor.Copy.Heap.Definitions.Add(-runBytes)
	ctx, end, err := o.listen(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { end(err) }()
	report, err = r.execute(ctx, began)
	return report, aborted(ctx, err)
}

// execute alters the table of a run that began at a time.
func (r *run) execute(ctx context.Context, began time.Time) (*Report, error) {
	r.o.Monitor.named(r.s.fullName(), r.s.Text)
	report := &Report{Table: r.s.fullName(), Alter: r.s.Text, Server: r.c.ServerVersion, Judgement: r.g, LockWaits: []float64{}}
	swapped := r.o.Swapped
	r.o.Swapped = func(report *Report) {
		report.Seconds = time.Since(began).Seconds()
		c := report.Copy
		r.o.hooks.emit(hookEvent{Event: hookSwapped, Old: c.Old, Until: c.Kept.Until, PauseSeconds: c.PauseSeconds})
		swapped(report)
	}
	r.o.hooks.emit(hookEvent{Event: hookStarted})
	if err := r.alter(ctx, report); err != nil {
		return nil, r.cancelled(ctx, err)
	}
	report.Seconds = time.Since(began).Seconds()
	if report.Copy == nil {
		r.o.hooks.emit(hookEvent{Event: hookAltered})
	}
	r.o.Monitor.step(telemetry.StepDone)
	return report, nil
}

// alter alters the table by the first way that works.
func (r *run) alter(ctx context.Context, report *Report) error {
	if r.stage == stageSwapped {
		report.Way, report.Why, report.Copy = WayCopy, "an earlier run has swapped the tables", newCopyReport(r.s)
		r.o.Monitor.chose(report.Way, report.Why)
		return r.keep(ctx, report)
	}
	w, why := WayCopy, "an earlier run has begun a copy"
	if r.job == nil {
		w, why = r.o.choose(r.g)
	}
	for {
		report.Way, report.Why = w, why
		r.o.Monitor.chose(w, why)
		r.o.Observe(telemetry.Event{Kind: telemetry.EventAlter, Text: fmt.Sprintf("%s is altered by %s: %s", r.s.fullName(), w, why)})
		switch w {
		case WayNone:
			return fmt.Errorf("alter %s: %s", r.s.fullName(), why)
		case WayCopy:
			r.warnRevert()
			return r.copy(ctx, report)
		}
		r.o.Monitor.step(telemetry.StepAltering)
		d := directer{o: r.o, c: r.c, s: r.s, report: report}
		err := r.withDuplicates(ctx, d.alter(ctx, w))
		reason, refused := unsupported(err)
		switch {
		case errors.Is(err, errLate):
			w, why = r.o.copyOr(err.Error())
		case refused:
			w, why = r.o.next(w, r.g, reason)
		case err != nil:
			return fmt.Errorf("alter %s by %s: %w", r.s.fullName(), w, err)
		default:
			return nil
		}
	}
}

package alter

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Listed is a table with an alteration that is recorded in the server. Its JSON is stable.
type Listed struct {
	Table   string      `json:"table"`
	Alter   string      `json:"alter"` // the clauses
	State   ListedState `json:"state"`
	Running bool        `json:"running"` // a process works on it
	Started string      `json:"started"` // by the server's clock and time zone
	Rows    int64       `json:"rows"`    // that are copied
	Chunks  int64       `json:"chunks"`  // likewise

	Old     string   `json:"old,omitempty"`     // the table with the former definition
	Until   string   `json:"until,omitempty"`   // when it may be dropped
	Expired bool     `json:"expired,omitempty"` // that time is over
	NoWay   string   `json:"no_way,omitempty"`  // why it cannot be reverted; empty: it can
	Lossy   []string `json:"lossy,omitempty"`   // possible losses of a revert

	schema, name string
}

// A ListedState is the state of a recorded alteration.
type ListedState string

// The states of a recorded alteration.
const (
	ListedCopying ListedState = "copying" // the tables are not swapped
	ListedKept    ListedState = "kept"    // the table is altered, and the old one is kept
	ListedLeft    ListedState = "left"    // it was reverted, or its old table was dropped, and records are left
)

// List returns the alterations that are recorded in a server, by table. Of the options it uses those of the connection.
func List(ctx context.Context, o Options) (all []Listed, err error) {
	c, err := connect(ctx, o.On)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // it only reads
	jobs, err := state.Jobs(ctx, c, Schema)
	if err != nil {
		return nil, err
	}
	_, err = c.Query(ctx, "SELECT table_schema, table_name, started FROM "+jobRecords.quotedName()+" ORDER BY 1, 2", func(row mysqlwire.TextRow) error {
		all = append(all, Listed{schema: string(row[0]), name: string(row[1]), Started: string(row[2])})
		return nil
	})
	if state.Absent(err) {
		return nil, nil
	}
	for i := range all {
		if err != nil {
			break
		}
		r := &run{o: &o, c: c, s: &Statement{Schema: all[i].schema, Table: all[i].name}}
		err = r.list(ctx, &all[i], jobs)
	}
	if err != nil {
		return nil, fmt.Errorf("list alterations: %w", err)
	}
	return all, nil
}

// list completes the description of a table.
func (r *run) list(ctx context.Context, l *Listed, jobs []state.Job) error {
	if err := r.findStage(ctx); err != nil {
		return err
	}
	l.Table, l.State = r.s.fullName(), ListedLeft
	if r.job == nil { // deleted meanwhile
		return nil
	}
	l.Alter = r.job.Clauses
	holder, err := session.QueryValue(ctx, r.c, "SELECT COALESCE(IS_USED_LOCK("+session.Literal(lockName(r.s))+"), 0)")
	if err != nil {
		return err
	}
	l.Running = holder != "0"
	switch r.stage {
	case stageCopying:
		l.State = ListedCopying
		for _, j := range jobs {
			if spec := r.s.spec(nil); j.Target == spec.Target() {
				l.Rows, l.Chunks = j.Rows, j.Copied
			}
		}
	case stageSwapped:
		l.State, l.Old = ListedKept, r.s.Schema+"."+r.s.old()
		if k := r.job.Kept; k != nil {
			l.Until, l.Expired, l.NoWay, l.Lossy = k.Until.UTC().Format(secondText), r.job.over(), k.Closed, k.Lossy
		}
	}
	return nil
}

// Cleanup drops the old tables of a server whose time is over, and returns their tables. Those that a process works on are left out.
func Cleanup(ctx context.Context, o Options) (dropped []Listed, err error) {
	all, err := List(ctx, o)
	if err != nil {
		return nil, err
	}
	var failed []error
	for i := range all {
		if !all[i].Expired || all[i].Running {
			continue
		}
		p := o
		p.Schema, p.Table = all[i].schema, all[i].name
		switch err := cleanOne(ctx, &p); {
		case err == nil:
			dropped = append(dropped, all[i])
		case !errors.Is(err, errBusy) && !errors.Is(err, errNotOver):
			failed = append(failed, err)
		}
	}
	return dropped, errors.Join(failed...)
}

// errNotOver means that an old table is still to be kept.
var errNotOver = errors.New("the old table is kept for longer")

// cleanOne drops the old table of one, if its time is over.
func cleanOne(ctx context.Context, o *Options) error {
	r, _, err := openKept(ctx, o)
	if err != nil {
		return err
	}
	defer r.close()
	if !r.job.over() {
		return errNotOver
	}
	return r.forgetOld(ctx)
}

// Text returns the description of a table as one line.
func (l *Listed) Text() string {
	text := l.Table + ": "
	switch l.State {
	case ListedCopying:
		how := "no process works on it: repeat its command to resume it, or cancel it"
		if l.Running {
			how = "a process works on it"
		}
		return text + "copying, " + strconv.FormatInt(l.Rows, 10) + " rows in " + strconv.FormatInt(l.Chunks, 10) + " chunks so far; " + how
	case ListedKept:
		text += "altered; the old table " + l.Old + " is kept"
		if l.Until != "" {
			text += " until " + l.Until
		}
		switch {
		case l.Running:
			return text + "; a process works on it"
		case l.Expired:
			return text + ", which is over: tare alter cleanup drops it"
		}
		return text
	}
	return text + "records are left: tare alter finish deletes them"
}

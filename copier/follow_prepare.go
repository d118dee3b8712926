package copier

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/rowstream"
	"github.com/taredb/tare/tick"
)

// followable says what keeps a table from being followed, and makes the plan for its events.
// there is the target's table.
func (t *table) followable(there *rowstream.Table) error {
	match, err := predicate(t.source, t.spec.Where)
	if err != nil {
		return err
	}
	t.events = t.plan
	if match != nil {
		events := rowstream.Plan{Match: match}
		if t.plan != nil {
			events.Where, events.Output = t.plan.Where, t.plan.Output
		}
		t.events = &events
	}
	if t.events != nil {
		if _, err := rowstream.NewFilter(t.events, len(t.source.Columns)); err != nil {
			return fmt.Errorf("the condition %q of %s cannot be followed: %w", t.spec.Where, t.spec.source(), err)
		}
	}
	key, err := t.findKey()
	if err != nil {
		return err
	}
	t.key, t.unique = key, uniqueKeys(there.Create)
	return t.sameUnique()
}

// findKey is the source's key as numbers of the target's columns.
func (t *table) findKey() ([]int, error) {
	var key []int
	for _, k := range t.source.Key {
		at := k
		if t.plan != nil && t.plan.Output != nil {
			at = slices.IndexFunc(t.plan.Output, func(o rowstream.Output) bool { return o.Column == k && o.From == rowstream.ColumnValue })
		}
		if at < 0 {
			return nil, fmt.Errorf("column %s of %s is of its key and is not copied: to follow changes, the target must know which row they are about; add it to --columns",
				t.source.Columns[k].Name, t.spec.source())
		}
		key = append(key, at)
	}
	return key, nil
}

// sameUnique refuses a target whose unique keys are not the source's: one that the source has
// not would push out rows that belong there, and without the source's key a change would not
// find its row.
func (t *table) sameUnique() error {
	rename := make(map[string]string) // the source's names to the target's
	for i := range t.source.Columns {
		rename[t.source.Columns[i].Name] = t.source.Columns[i].Name
	}
	for _, c := range t.spec.Columns {
		for name := range rename {
			if strings.EqualFold(name, c.From) {
				rename[name] = c.To
			}
		}
	}
	source := uniqueKeys(t.source.Create)
	for i := range source {
		for j := range source[i] {
			if to, ok := rename[source[i][j].column]; ok {
				source[i][j].column = to
			}
		}
	}
	for _, u := range t.unique {
		if !slices.ContainsFunc(source, u.equal) {
			return fmt.Errorf("follow %s: the target has the unique key %v and the source does not: changes that are applied could replace other rows; drop it, or add it to the source",
				t.spec.target(), u)
		}
	}
	var own uniqueKey
	for _, k := range t.key {
		own = append(own, keyPart{column: t.target.columns[k].Name})
	}
	if !slices.ContainsFunc(t.unique, own.equal) {
		return fmt.Errorf("follow %s: the target has no unique key %v, which identifies rows in the source: add it", t.spec.target(), own)
	}
	return nil
}

// A uniqueKey is the columns of a unique index.
type uniqueKey []keyPart

// A keyPart is a column of an index, or what of it is in there: a prefix, an expression.
type keyPart struct{ column, rest string }

func (u uniqueKey) String() string {
	names := make([]string, len(u))
	for i, p := range u {
		names[i] = p.column + p.rest
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func (u uniqueKey) equal(v uniqueKey) bool {
	return slices.EqualFunc(u, v, func(p, q keyPart) bool { return strings.EqualFold(p.column, q.column) && p.rest == q.rest })
}

// uniquePart is a column of an index, with the length of a prefix.
var uniquePart = regexp.MustCompile("(?s)^`((?:[^`]|``)+)`(\\(\\d+\\))?(?: ASC| DESC)?$")

// uniqueKeys reads the unique indexes, the primary key among them, out of the text of SHOW
// CREATE TABLE.
func uniqueKeys(create string) []uniqueKey {
	var all []uniqueKey
	for _, k := range rowstream.CreateKeys(create) {
		if k.Kind != "PRIMARY KEY" && k.Kind != "UNIQUE KEY" {
			continue
		}
		var u uniqueKey
		for _, part := range k.Parts {
			p := uniquePart.FindStringSubmatch(part)
			if p == nil { // an expression: it is the same when its text is
				u = append(u, keyPart{rest: part})
				continue
			}
			u = append(u, keyPart{column: strings.ReplaceAll(p[1], "``", "`"), rest: p[2]})
		}
		all = append(all, u)
	}
	return all
}

// startTables sets where each table's changes begin: after all that is in the target by the
// state of any copy that has followed it, and after the snapshot that its rows were first read
// by. A table of which nothing is copied gets none.
func (r *run) startTables(ctx context.Context) error {
	sources, err := r.sources(ctx)
	if err != nil {
		return err
	}
	followed, err := r.state.followedTables(ctx, r.to, sources)
	if err != nil {
		return err
	}
	for _, t := range r.tables {
		if t.state == nil {
			continue
		}
		copied, err := t.copiedAt()
		if err != nil {
			return err
		}
		if t.start, err = latest(append(followed[t.spec.target()], copied)...); err != nil {
			return fmt.Errorf("follow the changes of %s: %w", t.spec.source(), err)
		}
	}
	return nil
}

// copiedAt is the position of the table's first snapshot.
func (t *table) copiedAt() (binlog.Position, error) {
	p, err := binlog.ParsePosition(t.state.position)
	if err == nil && p.IsZero() {
		err = errors.New("the source reported no position of its binary log when the rows were read: turn on log_bin, and copy again with --follow --restart")
	}
	if err != nil {
		return p, fmt.Errorf("follow the changes of %s: %w", t.spec.source(), err)
	}
	return p, nil
}

// oldest is the position from which the log is read: the first of the tables' starts. A table that
// this run has begun to copy starts at its snapshot.
func (r *run) oldest() (oldest binlog.Position, err error) {
	for _, t := range r.tables {
		if t.state == nil {
			continue
		}
		if t.start.IsZero() {
			if t.start, err = t.copiedAt(); err != nil {
				return oldest, err
			}
		}
		if oldest.IsZero() {
			oldest = t.start
			continue
		}
		before, known := t.start.Before(oldest)
		if !known {
			return oldest, fmt.Errorf("follow the changes of %s: its rows are as of %s, those of another table as of %s, and neither is before the other: "+
				"they come from servers that had different transactions; copy the tables again with --restart", t.spec.source(), t.start, oldest)
		}
		if before {
			oldest = t.start
		}
	}
	return oldest, nil
}

// prepareFollow refuses, before any row moves, what cannot be followed. It answers where to
// go on: zero when nothing was copied before.
func (r *run) prepareFollow(ctx context.Context) (err error) {
	if err := r.state.createFollow(ctx, r.to); err != nil {
		return err
	}
	r.follow = r.state.followed(r.source, r.o.Tables)
	if r.o.Restart {
		if err := r.follow.forget(ctx, r.to); err != nil {
			return err
		}
	}
	if err := r.checkFollow(ctx); err != nil {
		return err
	}
	for _, t := range r.tables {
		if d := t.redefined; d != nil && d.anew {
			if err := r.state.define(ctx, r.to, t.spec, d.definition); err != nil {
				return err
			}
		}
	}
	return r.prepareHeart(ctx)
}

// checkFollow sets where following starts, and refuses what cannot be followed from there. It changes nothing.
func (r *run) checkFollow(ctx context.Context) (err error) {
	r.follow = r.state.followed(r.source, r.o.Tables)
	if _, err = r.follow.position(ctx, r.to); err != nil { // waits for a transaction that is being committed
		return err
	}
	if err := r.startTables(ctx); err != nil {
		return err
	}
	if r.goOn, err = r.oldest(); err != nil {
		return err
	}
	r.startCascades()
	return r.from.CheckFollow(ctx, r.present(), r.goOn)
}

// past reports whether the table is described as it was.
func (t *table) past() bool { return t.redefined != nil && t.redefined.past }

// followChanges follows the source once all rows are copied.
func (r *run) followChanges(ctx context.Context) error {
	_ = r.snapshot.Close() // of one view, whose transactions read only and hold up the source's cleaning
	var err error
	if r.goOn, err = r.oldest(); err != nil {
		return err
	}
	f, err := newFollower(r.o, r.from, r.tables, r.follow, r.goOn)
	if err != nil {
		return err
	}
	f.pace = r.pacer.Stream(tick.Process())
	f.beats(r.heart)
	defer f.pace.Close()
	r.o.Observe(Event{Kind: EventFollow, Text: r.goOn.String()})
	r.mu.Lock()
	r.follower = f
	r.mu.Unlock()
	r.watch(f, RunFollowing)
	if r.o.Cutover != nil && r.cut == nil {
		var telling sync.WaitGroup
		defer telling.Wait()
		telling.Go(func() { r.tellSteps(ctx, f) })
	}
	if slices.ContainsFunc(r.tables, (*table).past) { // it ends at the change before anything else could be done
		return f.run(ctx)
	}
	return r.followWithKeys(ctx, f)
}

// retentionPause is how often it is looked, while rows are copied, whether the source still has
// the log from where following will begin.
const retentionPause = time.Minute

// copyKept is copy, which fails as soon as what comes after it would not be possible.
func (r *run) copyKept(ctx context.Context, fail func(error)) error {
	if !r.o.Follow {
		return r.copy(ctx)
	}
	from, err := r.oldest()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() {
		ticker := time.NewTicker(retentionPause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := r.from.CheckFollow(ctx, r.present(), from)
			if stopped := new(binlog.StopError); errors.As(err, &stopped) {
				fail(err)
				return
			}
		}
	})
	return r.copy(ctx)
}

package alter

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/rowstream"
)

// A WayBack is how a table that was altered by a copy gets its former definition back.
type WayBack struct {
	Refused string   `json:"refused"` // why it cannot; empty: it can
	Lossy   []string `json:"lossy"`   // possible losses in rows written since the swap; empty: none
}

// wayBack returns the mapping from the new definition to the old one. fixed is as for mapper. The error is one of the server.
func (r *run) wayBack(ctx context.Context, old, altered *rowstream.Table, fixed map[string][]byte) (*tabledef.Mapping, WayBack, error) {
	w := WayBack{Lossy: []string{}}
	p, err := r.mapper(ctx, "the way back from "+r.s.Text, r.s.destination(altered), old, fixed)
	if err != nil {
		return nil, w, err
	}
	if err := r.s.sameKeys(old, altered); err != nil {
		w.Refused = err.Error()
		return nil, w, nil
	}
	m, err := p.newMapping(altered, old)
	switch {
	case state.IsUnreachable(err):
		return nil, w, err
	case err != nil:
		w.Refused = "in the other direction, " + err.Error()
		return nil, w, nil
	}
	w.Lossy = append(w.Lossy, losses(m, old, altered)...)
	return m, w, nil
}

// destination is the inverse of origin.
func (s *Statement) destination(altered *rowstream.Table) func(string) (string, bool) {
	to := make(map[string]string)
	for i := range altered.Columns {
		name := strings.ToLower(altered.Columns[i].Name)
		if from, ok := s.origin(name); ok {
			to[from] = name
		}
	}
	return func(column string) (string, bool) {
		name, ok := to[column]
		return name, ok
	}
}

// sameKeys returns an error unless rows of both definitions are identified by the same columns in the same order: the chunks of the copy
// are those of the way back.
func (s *Statement) sameKeys(old, altered *rowstream.Table) error {
	if slices.EqualFunc(old.Key, altered.Key, func(a, b int) bool {
		from, ok := s.origin(strings.ToLower(altered.Columns[b].Name))
		return ok && strings.EqualFold(from, old.Columns[a].Name)
	}) {
		return nil
	}
	return fmt.Errorf("rows of the new definition are identified by other columns (%s)", tabledef.KeyNames(altered))
}

// partitioning matches the partitions of a table in the text of SHOW CREATE TABLE.
var partitioning = regexp.MustCompile(`(?s)PARTITION BY .*`)

// losses returns the possible losses in rows that were written to the altered table.
func losses(m *tabledef.Mapping, old, altered *rowstream.Table) (lossy []string) {
	for i := range m.Columns {
		c := &m.Columns[i]
		name := c.Column.Name
		n := tabledef.ColumnNumber(altered, c.From)
		if n < 0 {
			lossy = append(lossy, fmt.Sprintf("column %s is dropped: rows that are written after the swap get its default", name))
			continue
		}
		now := &altered.Columns[n]
		if !c.Column.Holds(now) {
			lossy = append(lossy, fmt.Sprintf("column %s: %s has values that %s has not", name, typeText(now, &c.Column), typeText(&c.Column, now)))
		}
		if now.Nullable && !c.Column.Nullable {
			lossy = append(lossy, fmt.Sprintf("column %s can be NULL in the new definition alone", name))
		}
	}
	for _, check := range checksOf(old) {
		if !slices.Contains(checksOf(altered), check) {
			lossy = append(lossy, "the old definition has a constraint that rows could violate: "+check)
		}
	}
	if by := partitioning.FindString(old.Create); by != "" && by != partitioning.FindString(altered.Create) {
		lossy = append(lossy, "the old definition may have no partition for rows")
	}
	return lossy
}

// typeText returns the type of a column, with its character set if it is another one than that of other.
func typeText(c, other *rowstream.Column) string {
	if c.Charset != other.Charset && c.Charset != "" {
		return c.FullType + " " + c.Charset
	}
	return c.FullType
}

// checkText is a CHECK constraint in the text of SHOW CREATE TABLE, without its name.
var checkText = regexp.MustCompile(`(?m) CHECK \(.*\)`)

func checksOf(t *rowstream.Table) (checks []string) {
	for _, check := range checkText.FindAllString(t.Create, -1) {
		checks = append(checks, strings.TrimSpace(check))
	}
	return checks
}

// warnRevert names, before a copy starts, why it could not be reverted without loss.
func (r *run) warnRevert() {
	if r.g == nil || r.o.KeepOld == 0 {
		return
	}
	text := ""
	switch back := r.g.Revert; {
	case back.Refused != "":
		text = "it cannot be reverted after the swap: " + back.Refused
	case len(back.Lossy) > 0:
		text = "after the swap it can be reverted with option lossy-revert alone: " + strings.Join(back.Lossy, "; ")
	default:
		return
	}
	r.o.Observe(telemetry.Event{Kind: telemetry.EventAlter, Text: text})
}

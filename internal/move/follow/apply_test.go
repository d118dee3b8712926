package follow

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A changeBatch builds batches for tests.
type changeBatch struct{ binlog.ChangeBatch }

// add appends a change. A nil image means that there is none.
func (b *changeBatch) add(table int, before, after mysqlwire.TextRow) {
	c := binlog.Change{Table: int32(table), Before: -1, After: -1, Kind: binlog.Update}
	rows := &b.Tables[table]
	if before != nil {
		c.Before = len(rows.Bytes)
		rows.AppendRow(before)
	} else {
		c.Kind = binlog.Insert
	}
	if after != nil {
		c.After = len(rows.Bytes)
		rows.AppendRow(after)
	} else {
		c.Kind = binlog.Delete
	}
	b.Changes = append(b.Changes, c)
}

// image parses "1 two NULL" as a row, and "-" as no row.
func image(text string) mysqlwire.TextRow {
	text = strings.TrimSpace(text)
	if text == "-" {
		return nil
	}
	var row mysqlwire.TextRow
	for v := range strings.FieldsSeq(text) {
		if v == "NULL" {
			row = append(row, nil)
		} else {
			row = append(row, []byte(v))
		}
	}
	return row
}

// column parses "id int" or "name varchar(10):utf8mb4_general_ci".
func column(text string) rowstream.Column {
	name, full, _ := strings.Cut(text, " ")
	full, collation, _ := strings.Cut(full, ":")
	c := rowstream.Column{Name: name, FullType: full, Collation: collation}
	c.Type, _, _ = strings.Cut(full, "(")
	c.Charset, _, _ = strings.Cut(collation, "_")
	return c
}

// TestApply runs testdata/apply: changes, and the resulting statements of each writer.
func TestApply(t *testing.T) {
	var a *applier
	var names []string
	var columns []int
	datadriven.RunTest(t, "testdata/apply", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "tables":
			writers := 1
			if d.HasArg("writers") {
				d.ScanArgs(t, "writers", &writers)
			}
			var tables []applyTable
			names, columns = nil, nil
			for line := range strings.Lines(d.Input) {
				name, list, _ := strings.Cut(strings.TrimSpace(line), ": ")
				list, keys, _ := strings.Cut(list, "; key ")
				keys, unique, _ := strings.Cut(keys, "; ")
				var cols []rowstream.Column
				var key []int
				for text := range strings.SplitSeq(list, ", ") {
					cols = append(cols, column(text))
				}
				for k := range strings.SplitSeq(keys, ", ") {
					for i := range cols {
						if cols[i].Name == k {
							key = append(key, i)
						}
					}
				}
				sql, err := rowstream.NewRowSQL(name, cols, key)
				if err != nil {
					return err.Error()
				}
				table := applyTable{sql: sql, loose: sql.ExactKey() && !strings.Contains(unique, "unique "), cascades: cascadesOf(t, name, cols, unique)}
				if unique == "typed" {
					table.typed, unique = sql.Headed("REPLACE INTO "+name+" SELECT typed WHERE "), ""
				}
				if strings.HasPrefix(unique, "owned") {
					table.guard(t, name, cols, key, unique)
				} else {
					table.loose = table.loose && unique == ""
				}
				tables = append(tables, table)
				names, columns = append(names, name), append(columns, len(cols))
			}
			a = newApplier(tables, writers)
			return ""
		case "apply":
			var b changeBatch
			b.Tables = make([]rowstream.Batch, len(names))
			for i, n := range columns {
				b.Tables[i].Reset(n)
			}
			for line := range strings.Lines(d.Input) {
				name, images, _ := strings.Cut(line, ": ")
				before, after, _ := strings.Cut(images, "->")
				for i := range names {
					if names[i] == name {
						b.add(i, image(before), image(after))
						if text, ok := strings.CutPrefix(strings.TrimSpace(after), "cascade "); ok {
							c := &b.Changes[len(b.Changes)-1]
							b.Tables[i].Bytes, b.Tables[i].Rows = b.Tables[i].Bytes[:c.After], b.Tables[i].Rows-1
							c.Kind, c.After, c.Cascade = binlog.Cascaded, -1, text[0]-'0'
						}
					}
				}
			}
			if err := a.plan(&b.ChangeBatch); err != nil {
				return err.Error()
			}
			return a.transcript()
		}
		return "unknown command " + d.Cmd
	})
}

// guard makes the table one that has rows of several sources, by a list such as "owned; unique c".
func (a *applyTable) guard(t *testing.T, name string, cols []rowstream.Column, key []int, list string) {
	t.Helper()
	keys := [][]int{key}
	if _, c, ok := strings.Cut(list, "unique "); ok {
		keys = append(keys, []int{slices.IndexFunc(cols, func(col rowstream.Column) bool { return col.Name == c })})
	}
	a.sql = a.sql.Guarded("owned", true)
	for _, k := range keys {
		sql, err := rowstream.NewRowSQL(name, cols, k)
		if err != nil {
			t.Fatal(err)
		}
		a.displaced = append(a.displaced, sql.Guarded("owned", true))
	}
}

// cascadesOf parses the actions of foreign keys from a list such as "unique p; cascade p, set null q".
func cascadesOf(t *testing.T, name string, cols []rowstream.Column, list string) (all []*rowstream.RowSQL) {
	_, list, _ = strings.Cut(list, "cascades ")
	table := &rowstream.Table{Schema: "a", Name: name, Columns: cols, Create: "CREATE TABLE x (\n  `at` timestamp ON UPDATE current_timestamp(),\n)"}
	for text := range strings.SplitSeq(list, ", ") {
		if list == "" {
			break
		}
		action, column, _ := strings.Cut(text, " of ")
		n := slices.IndexFunc(cols, func(c rowstream.Column) bool { return c.Name == column })
		table.Cascades = append(table.Cascades, rowstream.Cascade{Key: rowstream.ForeignKey{Columns: []string{column}, OnDelete: action}, Columns: []int{n}})
	}
	for i := range table.Cascades {
		sql, err := rowstream.NewCascadeSQL(name, table, i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sql)
	}
	return all
}

// transcript returns the statements of each writer.
func (a *applier) transcript() string {
	var out strings.Builder
	for w := range a.writers {
		for t := range a.tables {
			s := a.script(w, t)
			for _, st := range s.statements {
				if a.writers > 1 {
					fmt.Fprintf(&out, "%d: ", w)
				}
				fmt.Fprintf(&out, "%s\n", s.text[st.from:st.to])
			}
		}
	}
	return out.String()
}

// applyAllocs returns batches that become statements.
func applyAllocs(t *testing.T) (cases []alloctest.Case) {
	t.Helper()
	columns := []rowstream.Column{column("id int"), column("k int"), column("c char(120):utf8mb4_general_ci"), column("e enum('a','b'):utf8mb4_general_ci")}
	sql, err := rowstream.NewRowSQL("t", columns, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	var b changeBatch
	b.Tables = make([]rowstream.Batch, 1)
	b.Tables[0].Reset(len(columns))
	for i := range 30 {
		row := image(fmt.Sprint(i, " 7 ", strings.Repeat("text'", 20), " 1"))
		switch i % 3 {
		case 0:
			b.add(0, nil, row)
		case 1:
			b.add(0, row, row)
		case 2:
			b.add(0, row, nil)
		}
	}
	cascades := cascadesOf(t, "t", columns, "cascades CASCADE of k, SET NULL of id")
	for i := range 4 {
		b.add(0, image("NULL 7 NULL NULL"), nil)
		c := &b.Changes[len(b.Changes)-1]
		c.Kind, c.Cascade = binlog.Cascaded, uint8(i%2)
	}
	for _, loose := range []bool{false, true} {
		a := newApplier([]applyTable{{sql: sql, loose: loose, cascades: cascades}}, 2)
		f, s := &Follower{o: Options{Shared: Shared{Heap: new(atomic.Int64)}}}, &slot{applier: a}
		cases = append(cases, alloctest.Case{Name: fmt.Sprintf("34 changes as statements, loose %v", loose), Op: func() error {
			if err := a.plan(&b.ChangeBatch); err != nil {
				return err
			}
			f.weigh(s)
			if a.empty(0) || f.o.Heap.Load() <= 0 {
				return state.ErrRows
			}
			return nil
		}})
	}
	return cases
}

func TestAllocs(t *testing.T) { alloctest.Run(t, applyAllocs(t)) }

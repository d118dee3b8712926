package tabledef

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestDescribe runs testdata/describe: definitions in the schemas src and dst of one server, a selection of rows and columns of src.t, and the
// description of its copy to dst.t, or why it is refused. Each case has lines of SQL, and lines that begin with a kind of clause.
func TestDescribe(t *testing.T) {
	server := testmysql.Start(t)
	c := testrows.Connect(t, testrows.Root(server))
	datadriven.RunTest(t, "testdata/describe", func(t *testing.T, d *datadriven.TestData) string {
		testrows.Exec(t, c, "SET foreign_key_checks = 0", "DROP DATABASE IF EXISTS src", "DROP DATABASE IF EXISTS dst", "SET foreign_key_checks = 1",
			"CREATE DATABASE src DEFAULT CHARSET latin1", "CREATE DATABASE dst DEFAULT CHARSET latin1", "USE src")
		sources := [][]Spec{{{Schema: "src", Name: "t", ToSchema: "dst", ToName: "t"}}, {{Schema: "src", Name: "t", ToSchema: "dst", ToName: "t"}}}
		o := DescribeOptions{Follow: d.HasArg("follow"), Verify: d.HasArg("verify"), KeepIndexes: d.HasArg("keep"), Triggers: d.HasArg("triggers")}
		if d.HasArg("dialect") {
			o.Dialect = &dialect.Translator{From: dialect.MySQL, To: dialect.MariaDB, Collations: map[string]string{"latin1_swedish_ci": "latin1_general_ci"}}
		}
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			kind, clause, _ := strings.Cut(line, " ")
			var err error
			switch kind {
			case "where":
				err = AddWhere(sources[0], clause)
			case "shard":
				err = AddShard(sources[0], clause)
			case "columns":
				err = AddColumns(sources[0], clause)
			case "split":
				err = AddSplit(sources, clause)
			case "merge":
				err = AddMerge(sources, []string{"one:1", "two:2"}, clause)
			default:
				testrows.Exec(t, c, line)
			}
			if err != nil {
				return kind + ": " + err.Error() + "\n"
			}
		}
		spec := &sources[0][0]
		if spec.Lookup != nil && !d.HasArg("unloaded") {
			if err := spec.Lookup.Load(t.Context(), c); err != nil {
				return err.Error() + "\n"
			}
		}
		source, err := rowstream.ReadTable(t.Context(), c, "src", "t")
		if err != nil {
			t.Fatal(err)
		}
		table, err := DescribeAs(t.Context(), source, c, o, spec)
		var differs *DiffersError
		if errors.As(err, &differs) {
			return err.Error() + "\nalteration: " + Alteration(spec, source, differs.Target) + "\n"
		}
		if err != nil {
			return err.Error() + "\n"
		}
		return describe(t, c, table)
	})
}

// describe returns a table's description as text.
func describe(t *testing.T, c *mysqlconn.Client, table *Table) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("%s", table.RecordedSpec())
	plan := func(name string, p *rowstream.Plan) {
		if p == nil {
			return
		}
		fmt.Fprintf(&b, "%s: match %t", name, p.Match != nil)
		for _, w := range p.Where {
			fmt.Fprintf(&b, ", column %d in shard %s", w.Column, w.Shard)
			if w.Lookup != nil {
				fmt.Fprintf(&b, " or %d of %d values", w.Number, w.Lookup.Len())
			}
		}
		for _, out := range p.Output {
			fmt.Fprintf(&b, ", column %d", out.Column)
		}
		b.WriteByte('\n')
	}
	plan("rows", table.Plan)
	plan("events", table.Events)
	for _, c := range table.Target.Columns {
		fmt.Fprintf(&b, "%s %s; ", c.Name, c.FullType)
	}
	line("counts %t, stores generated %t", table.Counts, table.StoresGenerated())
	if table.Create != "" {
		line("%s", table.Create)
	}
	if len(table.DeferredIndexes) > 0 {
		line("later: %s\n%s\n%s", JoinIndexes(table.DeferredIndexes), AddIndexes("t", table.DeferredIndexes), DropIndexes("t", table.DeferredIndexes))
	}
	if table.Key != nil {
		line("key %v of %v", table.Key, table.Unique)
	}
	if s := table.ReverseRefusal([]*Table{table}); s != "" {
		line("no way back: %s", s)
	}
	if err := OnlyAmong(t.Context(), c, []*Table{table}); err != nil {
		line("%v", err)
	}
	cascades, err := table.CascadeSQL()
	line("%d cascades, %v, derived %d", len(table.Source.Cascades), err, len(cascades))
	if o := table.Target.Owned; o != nil {
		line("owned: inserts %t, rows with %s", o.Inserts, o.Condition())
		for _, key := range o.Keys {
			sql := key.AppendDeleteTail(key.AppendKey(key.AppendDeleteHead(nil), testrows.Row("1", "2", "3")[:len(table.Target.Columns)], true))
			line("%s\n%s", sql, o.OtherOwner(string(sql)))
		}
		row := make(mysqlwire.TextRow, len(table.Source.Columns))
		for _, v := range []string{"1", "3", "1500"} {
			for i := range row {
				row[i] = []byte(v)
			}
			line("row of %s: %v", v, o.Check(row))
		}
	}
	return b.String()
}

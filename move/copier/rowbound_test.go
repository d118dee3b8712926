package copier_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// growing is a table that gets three rows at its end for each row that is copied.
type growing struct {
	create string
	insert string // with the number of the row, once
	more   []string
	before int // number of rows when the copy starts
	next   int
}

func (g *growing) grow(rows int) (all []string) {
	for range rows {
		all = append(all, fmt.Sprintf(g.insert, g.next))
		g.next++
	}
	return all
}

// TestGrowing copies tables whose rows are added at the end of their keys faster than they are copied, and
// whose other rows change meanwhile. The copy of the rows ends with the rows that existed when it started,
// and the others come from the log.
func TestGrowing(t *testing.T) {
	pad := strings.Repeat("x", 50) // chunks of some 16 rows
	tables := func() map[string]*growing {
		return map[string]*growing{
			"up":      {create: "(id INT PRIMARY KEY, u INT, pad CHAR(50) DEFAULT '" + pad + "', UNIQUE KEY u (u))", insert: "INSERT INTO up (id, u) VALUES (%[1]d, -%[1]d)", before: 400},
			"text":    {create: "(id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, u INT, pad CHAR(50) DEFAULT '" + pad + "', UNIQUE KEY u (u))", insert: "INSERT INTO text (id, u) VALUES ('K%07[1]d', %[1]d)", before: 400},
			"mixed":   {create: "(a INT NOT NULL, id INT NOT NULL, u INT, pad CHAR(50) DEFAULT '" + pad + "', PRIMARY KEY (a, id DESC))", insert: "INSERT INTO mixed (a, id, u) VALUES (%[1]d DIV 50, %[1]d, 0)", before: 400},
			"sparse":  {create: "(id BIGINT PRIMARY KEY, u INT, pad CHAR(50) DEFAULT '" + pad + "')", insert: "INSERT INTO sparse (id, u) VALUES (%[1]d * 1000003, %[1]d)", before: 400},
			"nothing": {create: "(id INT PRIMARY KEY, u INT)", insert: "INSERT INTO nothing VALUES (%[1]d, 0)"},
			"gone": {
				create: "(id INT PRIMARY KEY, u INT)", insert: "INSERT INTO gone VALUES (%[1]d, 0)", before: 100,
				more: []string{"DELETE FROM gone"},
			},
		}
	}
	changes := func(n int) []string { // rows before the bound, at it, and across it
		return []string{
			"UPDATE up SET u = u - 100000 WHERE id % 7 = 0", "UPDATE up SET id = id + 1000000 WHERE id = " + fmt.Sprint(n), "DELETE FROM up WHERE id = 399 - " + fmt.Sprint(n),
			"SET @u = (SELECT u FROM text WHERE id = 'k0000001')", "UPDATE text SET u = NULL WHERE id = 'k0000001'", "UPDATE text SET u = @u WHERE id = 'k0000399'",
			"UPDATE text SET u = @u - 5000000, id = CONCAT('k', id) WHERE id = 'k0000399'", "UPDATE mixed SET id = id - 1000000 WHERE id = 10 * " + fmt.Sprint(n),
		}
	}
	test := func(t *testing.T, p *pair, source func(o *copier.Options), same func(name string)) {
		all := tables()
		var names []string
		for _, name := range []string{"up", "text", "mixed", "sparse", "nothing", "gone"} {
			g := all[name]
			names = append(names, name)
			sqlExec(t, p.source, "CREATE TABLE "+name+" "+g.create)
			sqlExec(t, p.source, g.grow(g.before)...)
			sqlExec(t, p.source, "ANALYZE TABLE "+name)
		}
		writer := connect(t, root(p.from))
		sqlExec(t, writer, "USE "+p.schema)
		o := p.options(names...)
		source(&o)
		o.Heartbeat.Off = false
		o.Workers, o.ChunkBytes, o.MaxViewAge, o.Follow, o.UntilCaughtUp = 1, 1<<10, 300*time.Millisecond, true, true
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		const bound = 400 // chunks, a multiple of those at the start
		var mu sync.Mutex
		chunks := 0
		write := func(statements []string) {
			for _, sql := range statements {
				_, err := writer.Exec(ctx, sql)
				var refused *mysqlconn.ServerError
				if err != nil && !errors.As(err, &refused) { // a duplicate key
					cancel(err)
				}
			}
		}
		o.Observe = func(e telemetry.Event) {
			mu.Lock()
			defer mu.Unlock()
			switch e.Kind {
			case telemetry.EventTable:
				g := all[e.Table[len(p.schema)+1:]]
				write(append(g.grow(60), g.more...))
			case telemetry.EventChunk:
				if chunks++; chunks > bound {
					cancel(fmt.Errorf("%d chunks of the rows are copied, and no end: %w", chunks, errStopHere))
					return
				}
				write(append(all[e.Table[len(p.schema)+1:]].grow(3*int(e.Rows)+20), changes(chunks)...))
			}
		}
		report, err := copier.Run(ctx, o)
		if err != nil {
			t.Fatal(err, context.Cause(ctx))
		}
		for i, r := range report.Tables {
			if r.Rows > int64(all[names[i]].before) {
				t.Errorf("%s: %d rows were copied, it had %d", r.Source, r.Rows, all[names[i]].before)
			}
			same(names[i])
		}
		if chunks < 40 || report.Follow.Inserts < 1000 {
			t.Errorf("%d chunks, %d rows from the log: it grew too little", chunks, report.Follow.Inserts)
		}
	}
	onOneServer(t, "growinghere", func(t *testing.T, p *pair) {
		test(t, p, func(o *copier.Options) {
			for i := range o.Tables {
				o.Tables[i].ToSchema = "copied"
			}
		}, func(name string) {
			want, got := read(t, p.source, "SELECT * FROM "+name+" ORDER BY 1, 2"), read(t, p.target, "SELECT * FROM copied."+name+" ORDER BY 1, 2")
			if fmt.Sprint(want) != fmt.Sprint(got) {
				t.Errorf("%s: %d rows, want %d", name, len(got), len(want))
			}
		})
	})
	t.Run("over a wire", func(t *testing.T) {
		if testing.Short() {
			t.Skip("the same rows, read by another process")
		}
		p := newPair(t, "growing")
		test(t, p, func(o *copier.Options) { o.From = overTheWire(t, root(p.from), wire.NoCompression) }, func(name string) { p.same(t, name) })
	})
}

package state

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/operations.txt")

// connecting are the packets of each connection.
var connecting = []string{"login", "SET @@SESSION.", "SELECT VERSION(), CONNECTION_ID(),"}

// TestTranscript executes each operation of TestFaults without a fault: testdata/operations.txt has its statements to the target, its result and
// the rows that it changes.
func TestTranscript(t *testing.T) {
	f := newFaults(t)
	var out strings.Builder
	out.WriteString("What the functions of package state do in the target: their statements (>), results (=), and the rows that they add (+) and remove (-),\n" +
		"each line cut. TestTranscript compares it, and `-rewrite` writes it.\n")
	operations := f.operations()
	slices.SortStableFunc(operations, func(a, b operation) int { return strings.Compare(a.name, b.name) }) // those that are made from a map, too
	for i := range operations {
		o := &operations[i]
		start := f.content()
		f.exec(o.before...)
		before := f.compared(f.content())
		f.proxy.Set(0, "")
		got, err := f.run(o, f.through)
		f.must(err)
		fmt.Fprintf(&out, "\n%s\n", o.name)
		parts := func(a, b string) bool { return a == b && a == "a part of a file" } // their number is a matter of chance
		for _, sql := range slices.CompactFunc(f.proxy.Packets(), parts) {
			if !slices.ContainsFunc(connecting, func(begin string) bool { return strings.HasPrefix(sql, begin) }) {
				f.line(&out, ">", sql)
			}
		}
		switch v := got.(type) {
		case nil:
		case string, bool, uint64, error:
			f.line(&out, "=", fmt.Sprint(v))
		default:
			if o.want == nil {
				f.line(&out, "=", fmt.Sprintf("%+v", v))
			}
		}
		after := f.compared(f.content())
		for _, table := range tablesOf(before, after) {
			f.lines(&out, "-", table, before[table], after[table])
			f.lines(&out, "+", table, after[table], before[table])
		}
		f.restore(start)
	}
	const file = "testdata/operations.txt"
	if *rewrite {
		f.must(os.MkdirAll("testdata", 0o755))
		f.must(os.WriteFile(file, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	f.must(err)
	if !strings.Contains(f.holder.ServerVersion, "10.11.") {
		t.Skip("the transcript is that of MariaDB 10.11, which prints definitions of tables in its own way")
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Error(diff)
	}
}

func tablesOf(contents ...map[string][]string) (names []string) {
	for _, content := range contents {
		for table := range content {
			names = append(names, table)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lines prints the rows of a table that another content has not.
func (f *faults) lines(out *strings.Builder, mark, table string, rows, others []string) {
	for _, row := range rows {
		if !slices.Contains(others, row) {
			f.line(out, mark, table+": "+row)
		}
	}
}

var (
	tokens      = regexp.MustCompile(`(epoch (?:= |IN \()_binary')[0-9a-f]{32}`)
	connections = regexp.MustCompile(`connection [0-9]+`)
)

// line prints a text without what differs between runs: tokens of epochs, and ids of connections.
func (f *faults) line(out *strings.Builder, mark, text string) {
	text = strings.ReplaceAll(text, f.st.Lease.epoch, "(the run's epoch)")
	text = connections.ReplaceAllString(tokens.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1(token)"), "connection (id)")
	if len(text) > 220 {
		text = text[:220] + "…"
	}
	out.WriteString(mark + " " + strings.ToValidUTF8(text, "?") + "\n")
}

// TestStatementsFail has the server fail to execute each statement of the operations that change something: they return the error, and
// have changed nothing or everything. TestReadsFail has the others.
func TestStatementsFail(t *testing.T) {
	f := newFaults(t)
	operations := f.operations()
	for i := range operations {
		o := &operations[i]
		if o.tolerant != "" || strings.Contains(o.name, "ConflictWait") {
			continue
		}
		start := f.content()
		f.exec(o.before...)
		before := f.content()
		_, err := f.run(o, f.direct)
		f.must(err)
		unchanged, after := f.compared(before), f.compared(f.content())
		if o.call != nil && len(o.before) == 0 && reflect.DeepEqual(after, unchanged) {
			continue
		}
		t.Run(o.name, func(t *testing.T) {
			do := func() error {
				_, err := f.run(o, f.through)
				return err
			}
			if o.call != nil {
				c := f.connect(f.through)
				defer CloseLease(c)
				do = func() error {
					_, err := o.call(t.Context(), c)
					return err
				}
			}
			f.proxy.EachFails(t, func() error {
				f.restore(before)
				f.exec(o.before...)
				err := do()
				if now := f.compared(f.content()); err != nil && !o.partly && !reflect.DeepEqual(now, unchanged) && !reflect.DeepEqual(now, after) {
					t.Errorf("%q failed, and left %s", f.proxy.Sent(), differences(unchanged, now))
				}
				return err
			}, append(connecting, "ROLLBACK")...)
		})
		f.restore(start)
	}
}

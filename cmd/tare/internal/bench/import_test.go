package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// shortImport returns options for an import of a second.
func shortImport(t *testing.T) ImportOptions {
	t.Helper()
	o := DefaultImportOptions()
	o.DSN = testmysql.Shared(t).DSN("root")
	o.Bytes, o.StatementBytes, o.Connections = 2<<20, 128<<10, 3
	o.Every, o.Settle = 5*time.Millisecond, 20*time.Millisecond
	o.Target = weighed(t)
	return o
}

// TestImport sends a small dump over three connections: every row arrives, and the series and the drawing are
// complete.
func TestImport(t *testing.T) {
	o := shortImport(t)
	o.Keep = true
	r, err := Import(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := connectTest(t, o.DSN)
	if rows, err := s.runInt(t.Context(), nil, "SELECT COUNT(*) FROM "+importTable); err != nil || rows != r.Rows {
		t.Errorf("the table holds %d rows, %v; %d were sent", rows, err, r.Rows)
	}
	if r.Bytes < o.Bytes*3/4 || r.LargestBytes > o.StatementBytes || r.LargestBytes < o.StatementBytes/4 || r.Statements < 16 {
		t.Errorf("%d bytes in %d statements of up to %d; want about %d in at least 16 of up to %d",
			r.Bytes, r.Statements, r.LargestBytes, o.Bytes, o.StatementBytes)
	}
	for name, p := range map[string]struct{ idle, peak, after *float64 }{
		"resident":   {r.Idle.RSS, r.Peak.RSS, r.After.RSS},
		"heap":       {r.Idle.Heap, r.Peak.Heap, r.After.Heap},
		"plan cache": {r.Idle.PlanCache, r.Peak.PlanCache, r.After.PlanCache},
	} {
		switch {
		case p.idle == nil || p.peak == nil || p.after == nil:
			t.Errorf("%s was not measured: %v, %v, %v", name, p.idle, p.peak, p.after)
		case *p.idle <= 0 || *p.after <= 0 || *p.peak < *p.after:
			t.Errorf("%s: idle %v, peak %v, after %v; want a peak that is the most", name, *p.idle, *p.peak, *p.after)
		}
	}
	for i, s := range r.Samples {
		if i > 0 && (s.Seconds < r.Samples[i-1].Seconds || s.Imported < r.Samples[i-1].Imported) {
			t.Errorf("sample %d goes back: %+v after %+v", i, s, r.Samples[i-1])
		}
	}
	checkWritten(t, &r)
}

// checkWritten reads the files back.
func checkWritten(t *testing.T, r *ImportResult) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "import.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back ImportResult
	if err := json.Unmarshal(b, &back); err != nil || back.Bytes != r.Bytes || len(back.Samples) != len(r.Samples) {
		t.Errorf("import.json reads back as %d bytes in %d samples, %v; want %d in %d", back.Bytes, len(back.Samples), err, r.Bytes, len(r.Samples))
	}
	svg, err := os.ReadFile(filepath.Join(dir, "import.svg"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Count(svg, []byte(`fill="none"`))
	if lines != 3 {
		t.Errorf("the picture has %d lines, want 3", lines)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nidle, resident ", "\npeak, resident ", "\nafter, resident ", "plan cache 0.0 MiB", "of CPU a MiB"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, text.Bytes())
		}
	}
}

func TestImportLeavesNoTable(t *testing.T) {
	o := shortImport(t)
	o.Bytes = o.StatementBytes
	if _, err := Import(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	checkDropped(t, o.DSN, "an import")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Bytes, o.Connections = 1<<40, 1
	ended := make(chan error, 1)
	go func() {
		_, err := Import(ctx, o)
		ended <- err
	}()
	s := connectTest(t, o.DSN)
	testwait.Until(t, "the import's first rows", func() bool {
		n, err := s.runInt(t.Context(), nil, "SELECT COUNT(*) FROM "+importTable)
		return err == nil && n > 0
	})
	cancel()
	if err := testwait.Receive(t, "the import to end", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	checkDropped(t, o.DSN, "an import that was interrupted")
}

// TestInterruptedCreation interrupts the preparation of an import at 40 points of its time, among them the creation of the table: once the
// server has ended its statement, there is no table.
func TestInterruptedCreation(t *testing.T) {
	o := shortImport(t)
	o.Bytes = o.StatementBytes
	s := connectTest(t, o.DSN)
	c, err := newConnector(o.DSN, false)
	if err != nil {
		t.Fatal(err)
	}
	prepare := func(ctx context.Context) error {
		finish, err := prepareImport(ctx, &o, c)
		if err == nil {
			err = finish()
		}
		return err
	}
	begin := time.Now()
	if err := prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begin)
	const points = 40
	for i := range points {
		ctx, cancel := context.WithTimeout(t.Context(), whole*time.Duration(i)/points)
		_ = prepare(ctx) // an error wherever it was interrupted
		cancel()
		testwait.Until(t, "the end of the import's statement", func() bool {
			n, err := s.runInt(t.Context(), nil, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE '% TABLE %"+importTable+"%'")
			return err == nil && n == 0
		})
		if n, err := s.runInt(t.Context(), nil, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"); err != nil || n != 0 {
			t.Errorf("interrupted after %d/%d of the time: %d tables are left, %v", i, points, n, err)
		}
	}
}

func TestImportChecksTheServersLimit(t *testing.T) {
	o := shortImport(t)
	o.StatementBytes, o.Bytes = 512<<20, 1<<30
	if _, err := Import(t.Context(), o); err == nil || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("got %v, want an error about max_allowed_packet", err)
	}
}

func TestImportOptionsAreChecked(t *testing.T) {
	good := DefaultImportOptions()
	good.DSN, good.Target.PID = "u@tcp(127.0.0.1:1)/d", 1
	if err := good.Validate(); err != nil {
		t.Fatalf("the defaults with a DSN and a process: %v", err)
	}
	for want, change := range map[string]func(*ImportOptions){
		"--dsn is missing":  func(o *ImportOptions) { o.DSN = "" },
		"--dsn: data":       func(o *ImportOptions) { o.DSN = "nonsense" },
		"--statement-bytes": func(o *ImportOptions) { o.StatementBytes = 10 },
		"--bytes":           func(o *ImportOptions) { o.Bytes = 10 },
		"--connections":     func(o *ImportOptions) { o.Connections = 0 },
		"--every":           func(o *ImportOptions) { o.Every = 0 },
		"nothing to weigh":  func(o *ImportOptions) { o.Target.PID = 0 },
		"--metrics":         func(o *ImportOptions) { o.Target.Metrics = "x" },
	} {
		o := good
		change(&o)
		if _, err := Import(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// TestDumpKeepsToItsSize generates statements of many sizes.
func TestDumpKeepsToItsSize(t *testing.T) {
	d := newDump(1)
	var id atomic.Int64
	for size := int64(minStatement); size < 200_000; size = size*3/2 + 1 {
		stmt, rows := d.statement(size, &id)
		if n := int64(len(stmt)); n > size || n < size-2*importRowMost {
			t.Errorf("a statement of %d bytes was asked for, this has %d", size, n)
		}
		if got := int64(strings.Count(stmt, "),(") + 1); got != rows {
			t.Errorf("the statement has %d rows, it says %d", got, rows)
		}
	}
}

package explain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// planOfID returns a plan with one step.
func planOfID(id string) *Plan { return &Plan{ID: id, Steps: []Step{{Table: "t", Access: id}}} }

// one returns a bench with a single candidate, which was executed.
func one(t *testing.T) (*bench, *candidate) {
	t.Helper()
	b := newBench(t, "127.0.0.1:1", "")
	c := candidateOf("SELECT * FROM t", 0)
	b.all = []Candidate{c}
	b.refresh(t.Context())
	b.Observe(executed(c, "SELECT * FROM t", time.Millisecond))
	return b, (*b.candidates.Load())[c.Digest]
}

// TestUrgency has each condition for an EXPLAIN on both sides of its bound.
func TestUrgency(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *candidate)
		age    time.Duration // since the last attempt; negative: there was none
		want   int
	}{
		"never tried":                {func(*candidate) {}, -1, 3},
		"not executed":               {func(c *candidate) { c.execution.isSet = false }, -1, 0},
		"just tried":                 {func(*candidate) {}, 0, 0},
		"an old plan":                {func(*candidate) {}, maxAge, 1},
		"not so old":                 {func(*candidate) {}, maxAge - 1, 0},
		"a changed table":            {func(c *candidate) { c.dirty = true }, 2 * tick, 4},
		"a table changed just now":   {func(c *candidate) { c.dirty = true }, 2*tick - 1, 0},
		"heavier":                    {func(c *candidate) { c.mean, c.current = heavierBy, 2*heavierBy }, refreshEvery / 2, 2},
		"heavier, tried lately":      {func(c *candidate) { c.mean, c.current = heavierBy, 2*heavierBy }, refreshEvery/2 - 1, 0},
		"less than twice":            {func(c *candidate) { c.mean, c.current = heavierBy, 2*heavierBy-1 }, refreshEvery / 2, 0},
		"by less than a millisecond": {func(c *candidate) { c.mean, c.current = heavierBy-1, 2*heavierBy-2 }, refreshEvery / 2, 0},
		"unknown before":             {func(c *candidate) { c.current = time.Hour }, refreshEvery / 2, 0},
	} {
		b, of := one(t)
		if c.change(of); c.age >= 0 {
			of.tried = b.now.Add(-c.age)
		}
		if got := of.urgency(b.now); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestWindows computes the mean duration of windows of at least five seconds and three calls.
func TestWindows(t *testing.T) {
	b, c := one(t)
	c.window, c.calls0, c.nanos0 = b.now, c.calls.Load(), c.nanos.Load()
	call := func(took time.Duration) { b.Observe(executed(c.Candidate, "SELECT * FROM t", took)) }
	for i, step := range []struct {
		calls int
		after time.Duration
		want  time.Duration
	}{
		{2, 5 * time.Second, 0},
		{1, 5*time.Second - 1, 0},
		{0, 5 * time.Second, 2 * time.Millisecond},
		{3, 10*time.Second - 1, 2 * time.Millisecond},
		{0, 10 * time.Second, 8 * time.Millisecond},
		{0, time.Hour, 8 * time.Millisecond},
	} {
		for range step.calls {
			call(map[bool]time.Duration{true: 2 * time.Millisecond, false: 8 * time.Millisecond}[i < 3])
		}
		if c.roll(noon.Add(step.after)); c.current != step.want {
			t.Errorf("step %d: a mean of %v, want %v", i, c.current, step.want)
		}
	}
	call(-time.Second) // a clock that was set back
	if n := c.nanos.Load(); n > uint64(time.Hour) {
		t.Errorf("a negative duration is counted as %d ns", n)
	}
}

// TestBudget has a number of EXPLAINs each minute, none saved beyond.
func TestBudget(t *testing.T) {
	b := newBench(t, "127.0.0.1:1", "")
	for i := range MaxCandidates {
		text := fmt.Sprintf("SELECT * FROM t%d", i)
		b.all = append(b.all, candidateOf(text, 0))
	}
	b.refresh(t.Context())
	for i, c := range b.all {
		b.Observe(executed(c, fmt.Sprintf("SELECT * FROM t%d", i), 1))
	}
	take := func() (n int) {
		for c := b.due(b.now); c != nil; c = b.due(b.now) {
			n++
		}
		return n
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{
		{0, MaxPerMinute}, {time.Minute/MaxPerMinute - 1, 0}, {1, 1}, {-time.Hour, 0}, {time.Hour, 0}, {10 * time.Minute, MaxPerMinute},
	} {
		b.now = b.now.Add(step.after)
		if got := take(); got != step.want {
			t.Errorf("after %v: %d EXPLAINs, want %d", step.after, got, step.want)
		}
	}
	// The candidate that was tried first is due first.
	b.now = b.now.Add(2 * maxAge)
	first := b.due(b.now)
	for digest, c := range *b.candidates.Load() {
		if c != first && c.tried.Before(b.now.Add(-2*maxAge)) && !c.tried.IsZero() && c.tried.Before(noon) {
			t.Errorf("%x was tried at %v, before that which is due", digest, c.tried)
		}
	}
	none := newBench(t, "127.0.0.1:1", "")
	if none.due(none.now) != nil || none.HeapBytes() != 0 {
		t.Error("a statement is due before candidates are known")
	}
	none.Observe(executed(candidateOf("SELECT 1", 0), "SELECT 1", 1))
	none.SchemaChanged([]string{"a.b"})
	if _, ok := none.State([16]byte{1}); ok {
		t.Error("there is a state before candidates are known")
	}
}

// TestDueOrder has the most urgent candidate due first, of equally urgent ones the one that was tried the longest time ago.
func TestDueOrder(t *testing.T) {
	b := newBench(t, "127.0.0.1:1", "")
	for i := range 6 {
		b.all = append(b.all, candidateOf(fmt.Sprintf("SELECT * FROM t%d", i), 0))
	}
	b.refresh(t.Context())
	for i, c := range b.all {
		b.Observe(executed(c, fmt.Sprintf("SELECT * FROM t%d", i), 1))
	}
	b.now = b.now.Add(time.Hour)
	known := *b.candidates.Load()
	of := func(i int) *candidate { return known[b.all[i].Digest] }
	of(0).tried = b.now.Add(-maxAge)
	of(1).tried = b.now.Add(-maxAge - 2)
	of(2).tried = b.now.Add(-maxAge - 1)
	of(3).tried, of(3).dirty = b.now.Add(-time.Minute), true
	of(4).tried, of(4).why = b.now.Add(-2*maxAge), errType
	var got []int
	for c := b.due(b.now); c != nil && len(got) < 9; c = b.due(b.now) {
		for i := range b.all {
			if of(i) == c {
				got = append(got, i)
			}
		}
		c.dirty = false
	}
	if fmt.Sprint(got) != "[3 5 1 2 0]" {
		t.Errorf("due in the order %v", got)
	}
}

// TestRefresh takes the candidates that can be explained once each, and keeps their states.
func TestRefresh(t *testing.T) {
	b, c := one(t)
	c.Why = "kept"
	again, refused := c.Candidate, candidateOf("SET @a = 1", 0)
	again.Text = "SELECT * FROM another"
	cut := candidateOf("SELECT * FROM t WHERE a = 1", 0)
	cut.Text, cut.TextCut = "SELECT * FR", true
	b.all = []Candidate{{Digest: sqldigest.Digest{1}}, {Text: "SELECT 1"}, again, again, refused, cut}
	b.refresh(t.Context())
	known := *b.candidates.Load()
	if len(known) != 3 || known[c.Digest] != c {
		t.Errorf("%d candidates, want 3", len(known))
	}
	if s, _ := b.State(refused.Digest); s.Why != errType.Error() {
		t.Errorf("a statement that is not explained: %+v", s)
	}
	if s, ok := b.State(cut.Digest); !ok || s.Why != "" {
		t.Errorf("a cut text: %+v", s)
	}
	b.Observe(executed(refused, "SET @a = 1", time.Hour))
	if known[refused.Digest].calls.Load() != 0 || known[refused.Digest].heapBytes() >= maxText || c.heapBytes() < maxText {
		t.Error("executions of a statement that is not explained are kept")
	}
	if b.now = b.now.Add(time.Hour); b.due(b.now) != c || b.due(b.now) != nil {
		t.Error("a statement that is not explained is due")
	}
	b.opts.Candidates = func(context.Context) ([]Candidate, error) { return nil, errors.New("no history") }
	if b.refresh(t.Context()); len(*b.candidates.Load()) != 3 {
		t.Error("an error drops the candidates")
	}
}

// TestFailures pauses after failures of the server, twice as long each time, and not after those of a statement.
func TestFailures(t *testing.T) {
	b, c := one(t)
	lost := &mysqlconn.ServerError{Number: 1045}
	at := b.now
	for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, maxPause, maxPause} {
		if b.due(at) != c {
			t.Fatal("the candidate is not due")
		}
		b.record(c, nil, lost, at, time.Second)
		if s, _ := b.State(c.Digest); !strings.Contains(s.Why, "refuses the account of option control") {
			t.Errorf("state %+v", s)
		}
		if at = at.Add(pause - 1); b.due(at) != nil {
			t.Errorf("within the pause of %v", pause)
		}
		at = at.Add(1)
	}
	if b.due(at) != c {
		t.Fatal("the candidate is not due")
	}
	b.record(c, planOfID("ref"), nil, at, time.Second)
	if s, _ := b.State(c.Digest); s.Why != "" || !s.At.Equal(at) || len(s.Plans) != 1 || !s.Plans[0].First.Equal(at) {
		t.Errorf("after a success: %+v", s)
	}
	b.record(c, nil, lost, at, time.Second)
	if at = at.Add(10 * time.Second); b.due(at) != c {
		t.Error("the pause after a success is longer")
	}
	for err, dirty := range map[error]bool{refused{errView}: false, &mysqlconn.ServerError{Number: 1205}: true, &mysqlconn.ServerError{Number: 1146}: false} {
		b.problem, c.dirty = "", true
		b.record(c, nil, err, at, time.Second)
		if s, _ := b.State(c.Digest); s.Why == "" || c.dirty != dirty || b.problem != "" {
			t.Errorf("%v: %+v, dirty %v, problem %q", err, s, c.dirty, b.problem)
		}
	}
	c.Why = "an earlier reason"
	b.record(c, nil, refused{errNoPlan}, at, time.Second)
	if s, _ := b.State(c.Digest); s.Why != "an earlier reason" {
		t.Errorf("values without a plan: %+v", s)
	}
	want := `
		# HELP tare_explain_statements Statements that are explained.
		# TYPE tare_explain_statements gauge
		tare_explain_statements 1
		# HELP tare_explains_total Statements explained: ok, refused (cannot be explained), failed.
		# TYPE tare_explains_total counter
		tare_explains_total{result="failed"} 8
		tare_explains_total{result="ok"} 1
		tare_explains_total{result="refused"} 4
		# HELP tare_explain_seconds_total Time that EXPLAINs took, connections included.
		# TYPE tare_explain_seconds_total counter
		tare_explain_seconds_total 13
		# HELP tare_plan_changes_total New plans that the server chose for a statement, or returned to after a schema change.
		# TYPE tare_plan_changes_total counter
		tare_plan_changes_total 0
	`
	if err := testutil.CollectAndCompare(b, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	descs := make(chan *prometheus.Desc, 10)
	if b.Describe(descs); len(descs) != 4 {
		t.Errorf("%d metrics are described", len(descs))
	}
}

// TestChoose records changes of plans: to a plan that is new, or that returns after a table was altered.
func TestChoose(t *testing.T) {
	b, c := one(t)
	for i, step := range []struct {
		id      string
		altered bool
		changed string // before → after
	}{
		{"a", false, ""},
		{"a", true, ""},
		{"b", false, "a → b"},
		{"a", false, ""},
		{"b", true, "a → b"},
		{"c", false, "b → c"},
		{"d", false, "c → d"},
		{"e", false, "d → e"},
		{"f", false, "e → f"},
		{"a", false, "f → a"},
	} {
		b.now, b.changes = b.now.Add(time.Minute), nil
		if step.altered {
			b.SchemaChanged([]string{"other.t", "TEST.T"})
		}
		b.record(c, planOfID(step.id), nil, b.now, 0)
		got := ""
		if len(b.changes) > 0 {
			got = b.changes[0].Before.ID + " → " + b.changes[0].After.ID
		}
		s, _ := b.State(c.Digest)
		if got != step.changed || s.Plans[0].ID != step.id || !s.Plans[0].Last.Equal(b.now) || len(s.Plans) > maxPlans || len(s.Changes) > maxPlans ||
			got != "" && s.Changes[len(s.Changes)-1].After.ID != step.id {
			t.Errorf("step %d: %q, want %q; %+v", i, got, step.changed, s)
		}
		bytes := int64(0)
		for _, p := range s.Plans {
			bytes += p.bytes()
		}
		if got := b.HeapBytes(); got != c.heapBytes()+3*bytes {
			t.Errorf("step %d: %d bytes", i, got)
		}
	}
	s, _ := b.State(c.Digest)
	ids := func(all []Plan) (ids []string) {
		for _, p := range all {
			ids = append(ids, p.ID)
		}
		return ids
	}
	if got := ids(s.Plans); !slices.Equal(got, []string{"a", "f", "e", "d"}) || len(s.Changes) != maxPlans || s.Changes[0].After.ID != "d" {
		t.Errorf("plans %v, changes %+v", got, s.Changes)
	}
	for changed, want := range map[string]bool{"test.t": true, "TEST.*": true, "test.u": false, "tes.*": false, "other.t": false} {
		c.dirty, c.altered = false, false
		if b.SchemaChanged([]string{changed}); c.dirty != want || c.altered != want {
			t.Errorf("%s changed: dirty %v, altered %v", changed, c.dirty, c.altered)
		}
	}
}

// TestReasons has the kind of each error of a server.
func TestReasons(t *testing.T) {
	for number, c := range map[uint16]struct {
		why      error
		ofServer bool
	}{
		1142: {errRights, false}, 1143: {errRights, false}, 1227: {errRights, false}, 1370: {errRights, false}, 1345: {errRights, false},
		1317: {errTooLong, false}, 1028: {errTooLong, false}, 3024: {errTooLong, false}, 1969: {errTooLong, false},
		1205: {errLocked, false}, 1213: {errLocked, false}, 1792: {errReadOnly, false}, 1146: {errGone, false},
		1045: {nil, true}, 1698: {nil, true}, 1044: {nil, false}, 1049: {nil, false}, 1064: {nil, false},
	} {
		why, ofServer := reason(fmt.Errorf("explain: %w", &mysqlconn.ServerError{Number: mysqlwire.Errno(number)}))
		if c.why != nil && !errors.Is(why, c.why) || ofServer != c.ofServer || c.why == nil && !strings.Contains(why.Error(), fmt.Sprint(number)) {
			t.Errorf("error %d: %v, of the server %v", number, why, ofServer)
		}
	}
	if why, ofServer := reason(fmt.Errorf("dial: %w", errors.New("refused"))); why == nil || !ofServer {
		t.Errorf("a lost connection: %v, %v", why, ofServer)
	}
	if why, ofServer := reason(fmt.Errorf("explain: %w", refused{errView})); !errors.Is(why, errView) || ofServer {
		t.Errorf("a refused statement: %v, %v", why, ofServer)
	}
}

// TestSubjects has the reason for which a statement is not explained.
func TestSubjects(t *testing.T) {
	b := newBench(t, "127.0.0.1:1", "")
	for text, want := range map[string]error{
		"SELECT * FROM t":                nil,
		"UPDATE t SET a = ?":             nil,
		"DELETE FROM t WHERE a = ?":      nil,
		"INSERT INTO t SELECT * FROM u":  nil,
		"REPLACE INTO t SELECT * FROM u": nil,
		"INSERT INTO t VALUES (?)":       errType,
		"REPLACE INTO t VALUES (?)":      errType,
		"SET @a = ?":                     errType,
		"SELECT ?":                       errNoTable,
		"SELECT sleep(?) FROM t":         errWaits,
		"SELECT f(?) FROM t":             errEffects,
		"SELECT * FROM t FOR UPDATE":     errEffects,
		"SELECT * FROM t INTO OUTFILE ?": errEffects,
	} {
		s, err := subjectOf(b.planner, text, "test")
		if !errors.Is(err, want) && (err == nil || want == nil) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
		if want == nil && (len(s.tables) == 0 || s.selects != strings.HasPrefix(text, "SELECT") || s.writes == s.selects) {
			t.Errorf("%s: %+v", text, s)
		}
	}
}

// TestKept keeps executions up to each bound, and the reason beyond.
func TestKept(t *testing.T) {
	text := "SELECT * FROM t WHERE a = ?"
	c := candidateOf(text, 0)
	values := func(n, bytes int) []mysqlwire.BinaryValue {
		all := make([]mysqlwire.BinaryValue, n)
		for i := range all {
			all[i] = longlong(1)
			all[i].Data = make([]byte, bytes)
		}
		return all
	}
	for name, v := range map[string]struct {
		values []mysqlwire.BinaryValue
		why    error
	}{
		"as many values":   {values(maxBinds, 1), nil},
		"more values":      {values(maxBinds+1, 1), errNoValues},
		"as long":          {values(2, maxValues/2), nil},
		"longer":           {append(values(2, maxValues/2), longlong(1)), errNoValues},
		"sent apart":       {[]mysqlwire.BinaryValue{{Long: true}}, errNoValues},
		"NULL after bytes": {append(values(1, maxValues), mysqlwire.BinaryValue{}), nil},
	} {
		var e execution
		e.keep(executed(c, "", 1, v.values...))
		if !errors.Is(e.why, v.why) || !e.isSet || e.why == nil && len(e.binds) != len(v.values) {
			t.Errorf("%s: %v, %d values", name, e.why, len(e.binds))
		}
	}
	for n, why := range map[int]error{maxText: nil, maxText + 1: errLong} {
		var e execution
		if e.keep(executed(c, strings.Repeat("x", n), 1)); !errors.Is(e.why, why) || e.why == nil && len(e.text) != n {
			t.Errorf("a text of %d bytes: %v", n, e.why)
		}
	}
	cut := executed(c, text, 1)
	cut.TextBytes = len(text) + 1
	var e execution
	if e.keep(cut); !errors.Is(e.why, errLong) {
		t.Errorf("a text that was cut: %v", e.why)
	}
	b := newBench(t, "127.0.0.1:1", "")
	b.all = []Candidate{c}
	b.refresh(t.Context())
	of := (*b.candidates.Load())[c.Digest]
	prepare := executed(c, text, 0)
	prepare.Command = mysqlwire.ComStmtPrepare
	for name, change := range map[string]func(){
		"failed": func() { prepare.ErrorNumber = 1064 }, "cut": func() { prepare.TextBytes = len(text) + 1 },
		"long": func() { prepare.Text = make([]byte, maxText+1) }, "": func() {},
	} {
		saved := *prepare
		of.prepared = of.prepared[:0]
		change()
		if b.Observe(prepare); (len(of.prepared) > 0) != (name == "") {
			t.Errorf("a PREPARE that %s: %q", name, of.prepared)
		}
		*prepare = saved
	}
	of.mu.Lock() // while an execution is copied, another one is dropped
	b.Observe(executed(c, text, time.Hour))
	b.Observe(prepare)
	of.mu.Unlock()
	if of.execution.isSet || of.calls.Load() != 1 {
		t.Errorf("%+v, %d calls", of.execution, of.calls.Load())
	}
	other := executed(c, text, time.Hour)
	other.Command = mysqlwire.ComFieldList
	if b.Observe(other); of.execution.isSet || of.calls.Load() != 1 {
		t.Error("another command is kept")
	}
}

// TestParsePlan has the steps of plans in order, and errors of others.
func TestParsePlan(t *testing.T) {
	table := func(name, rest string) string {
		return `{"table_name": "` + name + `", "access_type": "ALL"` + rest + `}`
	}
	nested := func(n int, inner string) string { return strings.Repeat(`[`, n) + inner + strings.Repeat(`]`, n) }
	for text, want := range map[string]string{
		table("a", `, "rows": 1`):                                           "a full scan, 1 row",
		table("a", `, "rows_examined_per_scan": 2, "key": "k"`):             "a full scan by k, 2 rows",
		table("a", `, "rows": 3, "rows_examined_per_scan": 2`):              "a full scan, 3 rows",
		table("a", `, "rows": "many"`):                                      "a full scan, 0 rows",
		`{"table_name": "a", "access_type": "index"}`:                       "a full index scan, 0 rows",
		`{"table_name": "a", "access_type": "ref"}`:                         "a ref, 0 rows",
		`{"filesort": {"t": ` + table("a", "") + `}}`:                       "sort: a full scan, 0 rows",
		`{"materialized": [` + table("a", "") + `]}`:                        "  materialized: a full scan, 0 rows",
		`{"t": ` + table("a", `, "subqueries": `+table("b", "")) + `}`:      "a full scan, 0 rows|  subquery: b full scan, 0 rows",
		`{"filesort": {"t": ` + table("a", `, "x": `+table("b", "")) + `}}`: "sort: a full scan, 0 rows|b full scan, 0 rows",
		`{"z": ` + table("a", "") + `, "b": ` + table("c", "") + `}`:        "c full scan, 0 rows|a full scan, 0 rows",
		table("<union1,2>", ""):                                             "none",
		`{"table_name": "a"}`:                                               "none",
		`{"access_type": "ALL"}`:                                            "none",
		`{"message": "no matching row"}`:                                    "none",
		`[]`:                                                                "none",
		nested(maxDepth, table("a", "")):                                    "a full scan, 0 rows",
		nested(maxDepth+1, table("a", "")):                                  "error",
		nested(maxDepth+1, "1"):                                             "none",
		`{"a": ` + nested(maxDepth+1, "1") + `}`:                            "error",
		`{`:                                                                 "error",
	} {
		p, err := parsePlan([]byte(text), sqldigest.ServerMySQL)
		got := "error"
		switch {
		case err == nil:
			var steps []string
			for _, s := range p.Steps {
				steps = append(steps, s.String())
			}
			got = strings.Join(steps, "|")
		case errors.Is(err, errNoPlan):
			got = "none"
		}
		if got != want {
			t.Errorf("%.80s: %s (%v), want %s", text, got, err, want)
		}
	}
	ids := make(map[string]bool)
	for n, cut := range map[int]bool{maxSteps: false, maxSteps + 1: true} {
		p, err := parsePlan([]byte("["+strings.Repeat(table("a", "")+",", n-1)+table("a", "")+"]"), sqldigest.ServerMySQL)
		if err != nil || len(p.Steps) != maxSteps || p.Cut != cut {
			t.Errorf("%d steps: %d, cut %v (%v)", n, len(p.Steps), p.Cut, err)
		}
		ids[p.ID] = true
	}
	for _, text := range []string{table("b", ""), table("a", `, "key": "k"`), `{"table_name": "a", "access_type": "ref"}`, `{"subqueries": ` + table("a", "") + `}`} {
		p, err := parsePlan([]byte(text), sqldigest.ServerMySQL)
		if err != nil {
			t.Fatal(err)
		}
		other, err := parsePlan([]byte(text), sqldigest.ServerMariaDB)
		if err != nil || other.ID == p.ID {
			t.Errorf("%s: servers have one ID (%v)", text, err)
		}
		ids[p.ID] = true
	}
	if len(ids) != 6 {
		t.Errorf("%d IDs of 6 plans", len(ids))
	}
	same, _ := parsePlan([]byte(table("a", `, "rows": 1`)), sqldigest.ServerMySQL)
	if other, err := parsePlan([]byte(table("a", `, "rows": 9`)), sqldigest.ServerMySQL); err != nil || other.ID != same.ID {
		t.Error("estimates distinguish plans")
	}
}

// TestRun selects candidates after five seconds and each minute, and explains until it is canceled.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		p, err := New(Options{
			Login: func() mysqlconn.Config { return mysqlconn.Config{} }, Log: slog.New(slog.DiscardHandler),
			Candidates: func(context.Context) ([]Candidate, error) {
				asked = append(asked, time.Since(began))
				return nil, errors.New("none")
			},
		})
		must(t, err)
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		time.Sleep(130 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(asked); got != "[5s 1m5s 2m5s]" {
			t.Errorf("candidates were selected after %s", got)
		}
	})
	login := func() mysqlconn.Config { return mysqlconn.Config{} }
	candidates := func(context.Context) ([]Candidate, error) { return nil, nil }
	for name, o := range map[string]Options{
		"log": {Login: login, Candidates: candidates}, "candidates": {Login: login, Log: slog.Default()}, "login": {Candidates: candidates, Log: slog.Default()},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("options without %s are taken", name)
		}
	}
}

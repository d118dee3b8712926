package cutover

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

var allFaults = flag.Bool("all-faults", false, "fault tests have all faults at each packet and request, otherwise some")

// sides are one server that is the source and all targets of copies of src.a.
type sides struct {
	t               *testing.T
	proxy           *testproxy.Faulty
	direct, through mysqlconn.Config
	clients         mysqlconn.Config // of the source, where clients write
	c               *mysqlconn.Client
	source          *binlog.Direct
	waits           *telemetry.Waits
	next            int // id of the next row of a client
}

func newSides(t *testing.T) *sides {
	server := testmysql.Start(t, testmysql.WithBinlog())
	s := &sides{t: t, direct: testrows.Root(server), waits: &telemetry.Waits{Observe: func(telemetry.Event) {}}, next: 1000}
	s.direct.TLSMode = mysqlconn.TLSDisabled
	s.proxy = testproxy.StartFaulty(t, server.Addr)
	s.through, s.clients = s.direct, s.direct
	s.through.Addr = s.proxy.Addr
	s.c, s.source = testrows.Connect(t, s.direct), testrows.Direct(t, s.direct)
	s.exec("CREATE DATABASE src", "CREATE TABLE src.a (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO src.a VALUES (1, 1), (2, 2), (3, 3)",
		"CREATE USER client IDENTIFIED BY '"+testmysql.Password+"'", "GRANT ALL ON src.* TO client", "GRANT ALL ON dst.* TO client")
	return s
}

func (s *sides) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *sides) exec(statements ...string) {
	s.t.Helper()
	testrows.Exec(s.t, s.c, statements...)
}

func (s *sides) column(sql string) []string {
	s.t.Helper()
	return testrows.Column(s.t, s.c, sql)
}

// A copied is the copy of src.a to one target, with its state and lease.
type copied struct {
	s      *sides
	holder *mysqlconn.Client
	st     state.State
	table  *tabledef.Table
	state  *state.Following
	from   binlog.Position
}

// copy creates a copy to a schema, whose rows are there.
func (s *sides) copy(schema string) *copied {
	s.t.Helper()
	ctx := s.t.Context()
	s.exec("CREATE DATABASE "+schema, "CREATE TABLE "+schema+".a LIKE src.a", "INSERT INTO "+schema+".a SELECT * FROM src.a")
	spec := &tabledef.Spec{Schema: "src", Name: "a", ToSchema: schema, ToName: "a"}
	k := &copied{s: s, st: state.State{Schema: "_tare_" + schema}}
	var err error
	k.table, err = tabledef.Describe(ctx, s.source, s.c, tabledef.DescribeOptions{Follow: true}, spec)
	s.must(err)
	s.must(k.st.Create(ctx, s.c))
	s.must(k.st.CreateFollow(ctx, s.c))
	s.must(k.st.CreateCutover(ctx, s.c))
	k.acquire()
	s.t.Cleanup(k.release)
	k.reset()
	return k
}

// acquire acquires the lease, as a run does.
func (k *copied) acquire() {
	k.s.t.Helper()
	var err error
	k.holder, err = session.Connect(k.s.t.Context(), k.s.direct)
	k.s.must(err)
	k.st.Lease, err = state.AcquireLease(k.s.t.Context(), k.holder, k.st, []*tabledef.Spec{k.table.Spec}, testwait.Limit)
	k.s.must(err)
	k.state = k.st.Followed("source", []tabledef.Spec{*k.table.Spec})
}

// release ends the lease, as the end of a run does.
func (k *copied) release() { state.CloseLease(k.holder) }

// reset makes the target equal to the source, from its current position on.
func (k *copied) reset() {
	k.s.t.Helper()
	k.s.exec("SET GLOBAL read_only = 0", "DELETE FROM "+k.st.Cutovers(), "REPLACE INTO "+k.table.Spec.Target()+" SELECT * FROM src.a",
		"DELETE FROM "+k.table.Spec.Target()+" WHERE id NOT IN (SELECT id FROM src.a)")
	var err error
	k.from, err = k.s.source.CurrentPosition(k.s.t.Context())
	k.s.must(err)
	k.s.must(k.state.Forget(k.s.t.Context(), k.holder))
}

func (k *copied) writer(cfg mysqlconn.Config) *state.Writer {
	return &state.Writer{Cfg: cfg, State: k.st, Patience: testwait.Limit, Follows: true, Waits: k.s.waits, Observe: func(telemetry.Event) {}}
}

func (k *copied) heart(source binlog.Follower) *follow.Heartbeat {
	return follow.NewHeartbeat(follow.HeartbeatOptions{
		Source: source, Copy: k.state.ID, Tables: []*tabledef.Table{k.table}, Patience: testwait.Limit, Waits: k.s.waits, Observe: func(telemetry.Event) {},
	})
}

// follower returns a follower of the source that continues where the last one has stopped.
func (k *copied) follower() *follow.Follower {
	k.s.t.Helper()
	recorded, err := k.state.Position(k.s.t.Context(), k.holder)
	k.s.must(err)
	if !recorded.IsZero() {
		k.from = recorded
	}
	f, err := follow.New(follow.Options{
		Source: k.s.source, Tables: []*tabledef.Table{k.table}, From: k.from, State: k.state, Heartbeat: k.heart(k.s.source), Writer: func() *state.Writer { return k.writer(k.s.direct) },
		Shared: follow.Shared{Workers: 1, Patience: testwait.Limit, Waits: k.s.waits, Observe: func(telemetry.Event) {}, Count: func(*follow.Counts) {}},
	})
	k.s.must(err)
	return f
}

// phase returns the recorded phase.
func (k *copied) phase() phase {
	k.s.t.Helper()
	r := record{k.state}
	noted, _, err := r.load(k.s.t.Context(), k.s.c)
	k.s.must(err)
	return noted.phase
}

// missing returns rows of the source that the target has not.
func (k *copied) missing() []string {
	return k.s.column("SELECT s.id FROM src.a s LEFT JOIN " + k.table.Spec.Target() + " t ON t.id = s.id AND t.n = s.n WHERE t.id IS NULL")
}

// A handed is a handover of a source to two targets, while a client writes.
type handed struct {
	*sides
	parts []*copied
}

func (h *handed) new(cfg mysqlconn.Config) *Handover {
	o, err := NewHandover(HandoverOptions{
		Source: cfg, Tables: []tabledef.Spec{*h.parts[0].table.Spec}, Lag: testwait.Limit, MaxPause: testwait.Limit, Tries: 1, Patience: testwait.Limit, Observe: func(telemetry.Event) {},
	}, len(h.parts))
	h.must(err)
	return o
}

func (h *handed) targets(cfg mysqlconn.Config) (all []HandoverTarget) {
	for _, k := range h.parts {
		all = append(all, HandoverTarget{Config: cfg, Schema: k.st.Schema, Tables: []tabledef.Spec{*k.table.Spec}})
	}
	return all
}

// run hands the tables over while a client writes until it is refused.
func (h *handed) run(o *Handover, cfg mysqlconn.Config) error {
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	var all sync.WaitGroup
	for i, k := range h.parts {
		f := k.follower()
		part := &HandoverPart{
			Source: h.source, State: k.state, Tables: []*tabledef.Table{k.table}, Writer: func() *state.Writer { return k.writer(cfg) },
			Unequal: func() int { return 0 }, Check: func(context.Context) error { return nil },
		}
		all.Go(func() {
			if err := o.Follow(ctx, i, part, f, f.Run); err != nil && ctx.Err() == nil {
				h.t.Errorf("follow to %s: %v", k.table.Spec.Target(), err)
			}
		})
	}
	writing, stop := context.WithCancel(ctx)
	all.Go(func() { h.write(writing, func() string { return "src" }, func() {}) })
	err := o.Run(ctx)
	if err != nil {
		cancel() // the parts follow on
	}
	stop()
	testwait.Group(h.t, "the parts and the client to end", &all)
	return err
}

// write inserts rows into the table of a schema as a client without special privileges, until it is refused or ctx ends.
// It calls done after each statement.
func (s *sides) write(ctx context.Context, schema func() string, done func()) {
	cfg := s.clients
	cfg.User = "client"
	c, err := session.Connect(ctx, cfg)
	if err != nil {
		return // ctx has ended
	}
	defer func() { _ = c.Close() }() // its statements have been executed
	for pace := time.NewTicker(2 * time.Millisecond); ctx.Err() == nil; <-pace.C {
		var refused *mysqlconn.ServerError
		_, err := c.Exec(context.WithoutCancel(ctx), "INSERT INTO "+schema()+".a VALUES ("+strconv.Itoa(s.next)+", 1)")
		done()
		if errors.As(err, &refused) && refused.Number == 1290 { // read-only
			return
		}
		if err != nil {
			s.t.Error(err)
			return
		}
		s.next++
	}
}

// TestHandoverFaults has a fault of each kind at each packet of a handover to its source and its targets. Either the tables are handed over, with all rows,
// or the source is writable and no target has a record, unless the error says that this is not known. Begin then completes the first or makes the
// source writable, likewise with faults, and a handover without faults succeeds.
func TestHandoverFaults(t *testing.T) {
	rnd := testseed.Rand(t)
	h := &handed{sides: newSides(t)}
	h.parts = []*copied{h.copy("dst"), h.copy("dst2")}
	readOnly := func() bool { return h.column("SELECT @@GLOBAL.read_only")[0] == "1" }
	phases := func() string { return fmt.Sprint(h.parts[0].phase(), ", ", h.parts[1].phase()) }
	reset := func() {
		for _, k := range h.parts {
			k.reset()
		}
	}
	equal := func(place string) {
		t.Helper()
		for _, k := range h.parts {
			if rows := k.missing(); len(rows) > 0 {
				t.Errorf("%s: %s lacks the rows %v", place, k.table.Spec.Target(), rows)
			}
		}
	}
	complete := func(place string, begin *Handover, cfg mysqlconn.Config) (done bool, err error) {
		t.Helper()
		first := h.parts[0].phase()
		for _, k := range h.parts {
			k.release()
			defer k.acquire()
		}
		done, err = begin.Begin(t.Context(), h.targets(cfg), false)
		if err == nil && done != (first == phaseHanded) || err == nil && done != readOnly() {
			t.Errorf("%s: begun with the first record %q: %v, read-only %v", place, first, done, readOnly())
		}
		if report, made := begin.Made(); err == nil && (made != done || done && (phases() != "handed over, handed over" || report.Phase != PhaseHanded)) {
			t.Errorf("%s: begun with %q: %v, records %s, report %+v", place, first, done, phases(), report)
		}
		return done, err
	}
	finish := func(place string) {
		t.Helper()
		done, err := complete(place, h.new(h.direct), h.direct)
		h.must(err)
		if !done {
			for _, k := range h.parts {
				h.must(OpenHandoverPart(t.Context(), h.c, k.state, false))
			}
			if phases() != ", " {
				t.Errorf("%s: records %s of a handover that was opened", place, phases())
			}
			if err := h.run(h.new(h.direct), h.direct); err != nil || !readOnly() || phases() != "handed over, handed over" {
				t.Errorf("%s, again: %v, read-only %v, records %s", place, err, readOnly(), phases())
			}
		}
		equal(place)
	}
	outcomes := make(map[string]int)
	each := func(do func() error, prepare func(), check func(place string, err error)) {
		t.Helper()
		prepare()
		h.proxy.Set(0, "")
		h.must(do())
		cells := testproxy.AllFaults(h.proxy.Packets(), 1)
		t.Logf("%d cells", len(cells))
		if !*allFaults {
			rnd.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
			cells = cells[:min(len(cells), 4)]
		}
		h.proxy.Each(cells, prepare, do, func(cell testproxy.Cell, err error) {
			result := "done"
			if err != nil {
				result = "failed"
			}
			outcomes[string(cell.Fault)+": "+result]++
			if cell.Fault == testproxy.Refused && err != nil && !strings.Contains(err.Error(), testproxy.RefusedText) {
				t.Errorf("%s: it failed without the cause: %v", cell, err)
			}
			check(cell.String(), err)
		})
	}
	var o *Handover
	each(func() error { o = h.new(h.through); return h.run(o, h.through) }, reset, func(place string, err error) {
		switch report, made := o.Made(); {
		case isUncertain(err):
			outcomes["uncertain"]++
		case made != (err == nil) || made != readOnly():
			t.Errorf("%s: %v, made %v, read-only %v", place, err, made, readOnly())
		case made:
			equal(place)
			if h.parts[0].phase() != phaseHanded || report.Phase != PhaseHanded || report.SourcePosition == "" {
				t.Errorf("%s: records %s, report %+v", place, phases(), report)
			}
		case phases() != ", ":
			t.Errorf("%s: %v, with records %s", place, err, phases())
		}
		finish(place)
	})
	for _, first := range []phase{phaseHanding, phaseHanded} { // a run was killed
		each(func() error {
			_, err := complete("a run that was killed", h.new(h.through), h.through)
			return err
		}, func() {
			reset()
			for i, p := range []phase{first, phaseHanding} {
				h.must((&record{h.parts[i].state}).recordHandover(t.Context(), h.c, binlog.Position{File: "log.000001", Offset: 4}, p))
			}
			h.exec("SET GLOBAL read_only = 1")
		}, func(place string, _ error) {
			done, err := complete(place+", again", h.new(h.direct), h.direct)
			if err != nil || done != (first == phaseHanded) {
				t.Errorf("%s, again: %v, %v", place, done, err)
			}
		})
	}
	reset()
	t.Log(outcomes)
}

// TestHandoverStatements has the server fail at each statement by which a handover makes the source read-only, or writable again at the next start,
// in turn: it fails with the server's error.
func TestHandoverStatements(t *testing.T) {
	h := &handed{sides: newSides(t)}
	h.parts = []*copied{h.copy("dst"), h.copy("dst2")}
	reset := func() {
		for _, k := range h.parts {
			k.reset()
		}
	}
	reset()
	p := binlog.Position{File: "binlog.000001", Offset: 4}
	for _, k := range h.parts {
		k.release()
	}
	for _, c := range []struct {
		name     string
		phases   [2]phase // recorded by the targets
		readOnly string   // of the source
		except   string   // is repeated
	}{
		{"not stopped", [2]phase{phaseHanding, phaseNone}, "0", "-"},
		{"stopped", [2]phase{phaseHanding, phaseHanding}, "1", "login"},
		{"decided", [2]phase{phaseHanded, phaseHanding}, "1", "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.proxy.EachFails(t, func() error {
				for i, k := range h.parts {
					k.acquire()
					h.exec("DELETE FROM " + k.st.Cutovers())
					if c.phases[i] != phaseNone {
						h.must((&record{k.state}).recordHandover(t.Context(), k.holder, p, c.phases[i]))
					}
					k.release()
				}
				h.exec("SET GLOBAL read_only = " + c.readOnly)
				done, err := h.new(h.through).Begin(t.Context(), h.targets(h.through), false)
				decided := c.phases[0] == phaseHanded
				if readOnly := h.column("SELECT @@GLOBAL.read_only")[0] == "1"; err == nil && (done != decided || readOnly != decided || decided && h.parts[1].phase() != phaseHanded) {
					t.Errorf("begun: %t, the source is read-only: %t, record %q", done, readOnly, h.parts[1].phase())
				}
				return err
			}, "SELECT VERSION(), CONNECTION_ID(),", "SET @@SESSION.max_statement_time = ", "SELECT RELEASE_ALL_LOCKS()", c.except) // settings are set in other forms then
		})
	}
	for _, k := range h.parts {
		k.acquire()
	}
	reset()
	h.proxy.Set(0, "")
	h.must(h.run(h.new(h.through), h.through))
	seen := make(map[string]bool)
	for _, sql := range h.proxy.Packets() {
		form := statementForm(sql)
		if seen[form] || settings.MatchString(form) {
			continue
		}
		seen[form] = true
		reset()
		var texts []string
		o := h.new(h.through)
		o.o.Observe = func(e telemetry.Event) { texts = append(texts, e.Text) }
		h.proxy.SetAt(func(sql string) bool { return statementForm(sql) == form }, testproxy.Failed)
		err := h.run(o, h.through)
		sent := h.proxy.Sent()
		h.proxy.Set(0, "")
		_, made := o.Made()
		switch readOnly := h.column("SELECT @@GLOBAL.read_only")[0] == "1"; {
		case sent == "":
		case strings.Contains(sent, "_tare_dst2") && strings.Contains(sent, string(phaseHanded)): // the second target does not record the result
			said := slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "not recorded by all targets") })
			if err != nil || !made || !readOnly || !said {
				t.Errorf("%q failed: %v, made: %t, read-only: %t, %q", sent, err, made, readOnly, texts)
			}
		case err == nil || !strings.Contains(err.Error(), testproxy.RefusedText) || made || readOnly:
			t.Errorf("the server failed to execute %q: %v, made: %t, read-only: %t", sent, err, made, readOnly)
		case h.parts[0].phase() != phaseNone || h.parts[1].phase() != phaseNone:
			t.Errorf("the server failed to execute %q: records %q and %q", sent, h.parts[0].phase(), h.parts[1].phase())
		}
	}
	t.Logf("%d statements", len(seen))
}

var (
	statementNumbers = regexp.MustCompile(`\b[0-9]+\b`)

	// settings matches the statements by which a connection is opened or closed, which are others in a second try.
	settings = regexp.MustCompile(`^$|^SELECT VERSION\(\)|^SET @@SESSION.max_statement_time|^SELECT RELEASE_`)
)

// statementForm returns a statement without its numbers.
func statementForm(sql string) string { return statementNumbers.ReplaceAllString(sql, "?") }

// TestStopped finds out whether a statement that makes a server read-only was executed.
func TestStopped(t *testing.T) {
	s := newSides(t)
	other := testrows.Connect(t, s.direct)
	id := fmt.Sprint(other.ConnectionID)
	lost := errors.New("lost")
	for _, c := range []struct {
		name      string
		id        string
		err       error
		readOnly  bool
		sleeps    bool // the connection still executes a statement
		fails     bool
		uncertain bool
	}{
		{"executed", id, nil, false, false, false, false},
		{"not sent", "", lost, true, false, true, false},
		{"refused", id, &mysqlconn.ServerError{Number: 1227}, true, false, true, false},
		{"a deadlock, and it is not read-only", "4000000000", &mysqlconn.ServerError{Number: 1213}, false, false, true, false},
		{"a deadlock, and it is read-only", "4000000000", &mysqlconn.ServerError{Number: 1213}, true, false, false, false},
		{"lost, and it is not read-only", "4000000000", lost, false, false, true, false},
		{"lost, and it is read-only", "4000000000", lost, true, false, false, false},
		{"lost, and it runs", id, lost, true, true, true, true},
	} {
		s.exec("SET GLOBAL read_only = " + map[bool]string{false: "0", true: "1"}[c.readOnly])
		var sleeping sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		if c.sleeps {
			sleeping.Go(func() { _, _ = other.Exec(ctx, "SELECT SLEEP(600)") }) // it is canceled
			testwait.Until(t, "the statement to run", func() bool {
				return s.column("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP(600)'")[0] == "1"
			})
		}
		r := &readOnly{cfg: s.direct, patience: testwait.Limit}
		if c.uncertain {
			r.patience = time.Millisecond
		}
		err := r.stopped(t.Context(), c.id, c.err)
		if (err != nil) != c.fails || isUncertain(err) != c.uncertain || err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		cancel()
		testwait.Group(t, "the statement to end", &sleeping)
	}
	s.exec("SET GLOBAL read_only = 0")
}

package gateway

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

// Tests of the parts of a session, each without the others.

func newPlanner(t *testing.T) *sqlplan.Planner {
	t.Helper()
	p, err := sqlplan.New(sqlplan.Options{Rules: []sqlplan.Rule{{Name: "a", Action: sqlplan.ActionBlock, Users: []string{"app"}, Tables: []string{"hidden.*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestModesKeepTheirScope applies random events to modes: the scope is always that of the schema, the user, the mode and the
// rules, and an unknown mode is queried.
func TestModesKeepTheirScope(t *testing.T) {
	rng := testseed.Rand(t)
	planner := newPlanner(t)
	m := modes{planner: planner}
	m.logIn("app", "shop")
	m.rescope()
	names := []string{"", "shop", "sch\xe4ma", "other", "a`b"}
	events := []struct {
		name string
		do   func()
	}{
		{"status", func() { m.setStatus(mysqlwire.Status(rng.Uint32())) }},
		{"server", func() { m.setServer([]string{"8.4.0", "10.11.19-MariaDB", "8.0.11-TiDB-v8.5.0", "?"}[rng.IntN(4)]) }},
		{"schema", func() { m.useSchema([]byte(names[rng.IntN(len(names))])) }},
		{"reported schema", func() { m.reportSchema([]byte(names[rng.IntN(len(names))])) }},
		{"user", func() { m.setUser([]byte(names[rng.IntN(len(names))])) }},
		{"charset", func() { m.setCharset(sqldigest.CharsetNamed([]byte([]string{"utf8mb4", "latin1", "?"}[rng.IntN(3)]))) }},
		{"SET sql_mode", func() { m.setSQLMode(sqldigest.Mode(rng.Uint64())) }},
		{"report", func() { m.report([]byte("utf8mb4"), []byte("ANSI_QUOTES"), []byte("shop")) }},
		{"forget", func() { m.forget() }},
		{"reset", func() { m.reset(mysqlwire.Status(rng.Uint32())) }},
		{"rules", func() {
			if err := planner.SetRules([]sqlplan.Rule{{Name: "b", Action: sqlplan.ActionBlock, Users: []string{names[1+rng.IntN(3)]}, Tables: []string{"hidden.t"}}}); err != nil {
				t.Fatal(err)
			}
			m.followRules()
		}},
	}
	for range 2000 {
		e := events[rng.IntN(len(events))]
		e.do()
		if want := planner.ScopeOf([]byte(m.schema), []byte(m.user), m.mode); m.scope != want {
			t.Fatalf("after %s the scope is %x, want %x", e.name, m.scope, want)
		}
		switch e.name {
		case "forget", "reset":
			if !m.unknown || !m.mode.Unknown() {
				t.Fatalf("after %s the mode %v is known", e.name, m.mode)
			}
		case "report":
			if m.unknown || m.mode.Unknown() || m.schema != "shop" {
				t.Fatalf("after %s the mode %v is unknown, or the schema %q", e.name, m.mode, m.schema)
			}
		}
	}
}

// TestModesOfMariaDB takes ANSI_QUOTES from the status of MariaDB only: other servers do not report it.
func TestModesOfMariaDB(t *testing.T) {
	m := modes{planner: newPlanner(t)}
	m.setServer("8.4.0")
	m.setSQLMode(sqldigest.ANSIQuotes)
	m.setStatus(0)
	if m.mode&sqldigest.ANSIQuotes == 0 {
		t.Error("MySQL's status changed ANSI_QUOTES")
	}
	m.setServer("10.11.19-MariaDB")
	m.setStatus(0)
	if m.mode&sqldigest.ANSIQuotes != 0 {
		t.Error("MariaDB's status without ANSI_QUOTES did not change it")
	}
	m.setStatus(mysqlwire.StatusMariaANSIQuotes)
	if m.mode&sqldigest.ANSIQuotes == 0 {
		t.Error("MariaDB's status with ANSI_QUOTES did not change it")
	}
}

// TestTransaction numbers transactions from their first to their last statement.
func TestTransaction(t *testing.T) {
	const in = mysqlwire.StatusInTrans
	var numbers atomic.Uint64
	var tx transaction
	started := time.Now()
	at := func(second int) time.Time { return started.Add(time.Duration(second) * time.Second) }
	for i, step := range []struct {
		status mysqlwire.Status
		number uint64
	}{{0, 0}, {in, 1}, {in, 1}, {0, 1}, {0, 0}, {in, 2}} {
		r := querylog.Record{Start: at(2 * i), Digest: sqldigest.Digest{byte(i)}}
		if tx.note(step.status, &r, at(2*i+1), started, &numbers); r.TransactionID != step.number {
			t.Errorf("statement %d is of transaction %d, want %d", i, r.TransactionID, step.number)
		}
	}
	if tx.since != 10*time.Second || tx.waits != 11*time.Second || tx.last != (sqldigest.Digest{5}) {
		t.Errorf("the open transaction is %+v", tx)
	}
	tx.hide()
	tx.rollBack()
	if tx.number != 0 || tx.last != (sqldigest.Digest{}) {
		t.Errorf("after a rollback the transaction is %+v", tx)
	}
	if tx.continues(0) || !tx.continues(in) {
		t.Error("a unit of work is open outside of a transaction, or none within")
	}
	if tx.startsNext(); !tx.continues(0) {
		t.Error("SET TRANSACTION opens no unit of work")
	}
	if tx.note(in, &querylog.Record{Start: started}, started, started, &numbers); tx.continues(0) {
		t.Error("SET TRANSACTION holds after the start of its transaction")
	}
	tx.sendsLong(true)
	tx.startsNext()
	if tx.reset(); tx.continues(0) {
		t.Error("a unit of work is open after a reset")
	}
}

// TestCarried has a session carry the SET statements that can be replayed, and pins it by the others.
func TestCarried(t *testing.T) {
	planner := newPlanner(t)
	var c carried
	run := func(sql string) (next bool) {
		var d sqldigest.Digester
		m := modes{planner: planner}
		m.setServer("8.4.0")
		m.report([]byte("utf8mb4"), nil, nil)
		q := &query{}
		q.msg.cmd, q.msg.whole, q.resp.Results = mysqlwire.ComQuery, true, 1
		q.rec.Text, q.rec.Digest = []byte(sql), d.Digest([]byte(sql), m.mode)
		q.plan = planner.Plan(sqlplan.Statement{SQL: q.rec.Text, Complete: true, Text: d.Text(), Digest: q.rec.Digest, Scope: m.scope, Mode: m.mode})
		return c.track(q, m.mode, q.plan.Effects())
	}
	kept := func() (all []string) {
		for sql := range c.sets.all() {
			all = append(all, string(sql))
		}
		return all
	}
	for _, sql := range []string{"set sql_safe_updates = 1", "set @a = 1", "select 1", "set sql_safe_updates = 1", "set global max_connections = 7"} {
		if run(sql) || c.pin.Load() != nil {
			t.Errorf("%s concerns the next transaction, or pins the session", sql)
		}
	}
	if got, want := kept(), []string{"set @a = 1", "set sql_safe_updates = 1"}; !slices.Equal(got, want) {
		t.Errorf("SET statements %q are carried, want %q", got, want)
	}
	if !run("set transaction read only") || c.pin.Load() != nil {
		t.Error("SET TRANSACTION does not concern the next transaction, or pins the session")
	}
	if run("lock tables t read"); c.pin.Load() == nil {
		t.Error("LOCK TABLES does not pin the session")
	}
	if run("unlock tables"); c.pin.Load() != nil {
		t.Error("UNLOCK TABLES does not unpin the session")
	}
	run("lock tables instance read")
	if run("unlock tables"); c.pin.Load() != nil {
		t.Error("UNLOCK TABLES does not unpin a session that has locked a table whose name is instance")
	}
	run("lock tables t read")
	run("lock instance for backup")
	run("create temporary table t (a int)")
	if run("unlock tables -- instance"); c.pin.Load() == nil || c.pin.Load().Reason != lockedInstance {
		t.Errorf("after UNLOCK TABLES the session is pinned by %v, want the backup lock", c.pin.Load())
	}
	if run("unlock instance"); c.pin.Load() == nil || c.pin.Load().Reason != "a temporary table" {
		t.Errorf("after UNLOCK INSTANCE the session is pinned by %v, want the temporary table", c.pin.Load())
	}
	c.reset()
	for _, sql := range []string{"set names latin1", "set @a = 'x'", "set names utf8mb4", "set names latin1", "set names latin1", "set @a = 'x'"} {
		run(sql)
	}
	if got, want := kept(), []string{"set names latin1", "set names utf8mb4", "set names latin1", "set @a = 'x'"}; !slices.Equal(got, want) {
		t.Errorf("SET statements %q are carried, want %q: the value of @a depends on those before it", got, want)
	}
	run("set @a = @b")
	run("create temporary table t (a int)")
	if p := c.pin.Load(); p == nil || p.Reason == "a temporary table" {
		t.Errorf("the session is pinned by %v, want the first reason", p)
	}
	if c.reset(); c.pin.Load() != nil || len(kept()) > 0 || !c.wasReset {
		t.Errorf("after a reset the session carries %q, pinned by %v", kept(), c.pin.Load())
	}
	for _, o := range []mysqlwire.Option{mysqlwire.OptionMultiStatementsOff, mysqlwire.OptionMultiStatementsOn} {
		c.setOption(o)
		if on := o == mysqlwire.OptionMultiStatementsOn; c.takesSeveral(mysqlwire.CapMultiStatements) != on || c.takesSeveral(0) != on {
			t.Errorf("several statements are permitted otherwise than by option %d", o)
		}
	}
}

// TestTurnstile has a session's next command wait for the KILL QUERY of its current one.
func TestTurnstile(t *testing.T) {
	var s turnstile
	s.enter(2)
	first := s.holdNext()
	if s.passes(2) || !s.isHeld() {
		t.Error("the next command passes during a KILL QUERY")
	}
	close(first.done)
	if s.passes(2) || s.isHeld() {
		t.Error("the next command passes without looking, or the KILL QUERY is not over")
	}
	second := s.holdNext() // of the same command
	close(second.done)
	if s.endHold(nil); !s.passes(2) || s.isHeld() {
		t.Error("the next command does not pass after the KILL QUERY")
	}
}

// pipeLink returns a link over connections in memory, with their far ends.
func pipeLink(t *testing.T) (l *link, client, backend net.Conn) {
	t.Helper()
	near, client := net.Pipe()
	nearBackend, backend := net.Pipe()
	l = &link{}
	l.open(near, newBufferPool(1<<20))
	l.setBackend(mysqlconn.NewBuffer(netloop.NewConn(nearBackend), make([]byte, backendBuffer)))
	t.Cleanup(func() {
		l.releaseBuffers()
		l.close()
		client.Close()
		backend.Close()
	})
	return l, client, backend
}

// TestLinkWakes interrupts a read by the causes that concern it.
func TestLinkWakes(t *testing.T) {
	for _, c := range []struct {
		cause   uint32
		backend bool // wakes a read from the backend, else from the client
	}{
		{causeClientGone, true},
		{causeBackendGone, false},
		{causeIdle, false},
		{causeDrain, false},
		{causeMove, false},
		{causeKilled, true},
		{causeKilled, false},
		{causeDrainLimit, true},
		{causeDrainLimit, false},
	} {
		l, _, _ := pipeLink(t)
		if err := l.clearDeadlines(0); err != nil {
			t.Fatal(err)
		}
		woken := make(chan error, 1)
		from := l.client
		if c.backend {
			from = l.backend
		}
		go func() { woken <- from.Fill() }()
		pokes := l.pokes()
		l.interrupt(c.cause)
		testwait.Receive(t, "the poke", pokes)
		if err := testwait.Receive(t, "the read to end", woken); !isTimeout(err) {
			t.Errorf("cause %#x: the read ended by %v", c.cause, err)
		}
		if l.occurred() != c.cause {
			t.Errorf("causes %#x occurred, want %#x", l.occurred(), c.cause)
		}
		if err := l.clearDeadlines(0); err != nil { // the cause is not handled yet
			t.Fatal(err)
		}
		if err := from.Fill(); !isTimeout(err) {
			t.Errorf("cause %#x: a later read ended by %v", c.cause, err)
		}
		l.acknowledge(c.cause)
		if l.occurred() != 0 {
			t.Errorf("causes %#x are left", l.occurred())
		}
	}
}

// TestLinkBorrows borrows buffers for both sides: they go back to the pool once their bytes fit the private ones.
func TestLinkBorrows(t *testing.T) {
	l, client, _ := pipeLink(t)
	lent := func() int64 { _, lent := l.pool.bytes(); return lent }
	private := l.size()
	l.borrowClient(clientBuffer + 1)
	l.borrowBackend()
	l.borrowBackend()
	if n := lent(); n != 2*relayBuffer || l.client.Size() != relayBuffer || l.backend.Size() != relayBuffer {
		t.Fatalf("%d bytes are lent, buffers of %d and %d bytes", n, l.client.Size(), l.backend.Size())
	}
	if n := l.bufferSize(clientSide) + l.bufferSize(backendSide); n != clientBuffer+backendBuffer {
		t.Errorf("%d bytes of private buffers, want %d", n, clientBuffer+backendBuffer)
	}
	l.borrowClient(2 * relayBuffer)
	if n := lent(); n != 3*relayBuffer {
		t.Fatalf("%d bytes are lent after a longer buffer", n)
	}
	written := make(chan error, 1)
	go func() { _, err := client.Write(make([]byte, clientBuffer+1)); written <- err }()
	for len(l.client.Buffered()) <= clientBuffer {
		if err := l.client.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := testwait.Receive(t, "the write", written); err != nil {
		t.Fatal(err)
	}
	if l.returnBuffers(); lent() != 2*relayBuffer {
		t.Errorf("%d bytes are lent, want the client's buffer, whose bytes do not fit", lent())
	}
	l.client.Discard(1)
	if l.returnBuffers(); lent() != 0 || len(l.client.Buffered()) != clientBuffer {
		t.Errorf("%d bytes are lent, %d buffered", lent(), len(l.client.Buffered()))
	}
	if l.size() != private+2 { // each side has had a long read
		t.Errorf("the size is %d, want %d", l.size(), private+2)
	}
}

// TestThreeColumns refuses responses that are cut.
func TestThreeColumns(t *testing.T) {
	var whole []byte
	for i, p := range []string{"\x03", "def", "def", "def", "\x01a\x01b\x01c"} {
		whole, _ = mysqlwire.AppendPacket(whole, []byte(p), uint8(i+1))
	}
	row, err := threeColumns(whole, mysqlwire.CapDeprecateEOF)
	if err != nil || string(row[0])+string(row[1])+string(row[2]) != "abc" {
		t.Fatalf("the row is %q, %v", row, err)
	}
	for n := range whole {
		if _, err := threeColumns(whole[:n], mysqlwire.CapDeprecateEOF); !errors.Is(err, mysqlwire.ErrShortPacket) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// pipeRelayer returns a relayer over connections in memory, with their far ends.
func pipeRelayer(t *testing.T) (x *relayer, client, backend net.Conn) {
	t.Helper()
	near, client := net.Pipe()
	nearBackend, backend := net.Pipe()
	srv := &Server{
		opts:    Options{Planner: newPlanner(t), StatementMemory: defaultStatementMemory, IdleTimeout: time.Hour},
		buffers: newBufferPool(1 << 20), metrics: newMetrics(1), started: time.Now(),
	}
	x = &relayer{}
	x.open(srv, near)
	x.setBackend(mysqlconn.NewBuffer(netloop.NewConn(nearBackend), make([]byte, backendBuffer)))
	x.aim(&target{})
	x.agree(mysqlwire.CapProtocol41)
	x.connected(7, "8.4.0")
	t.Cleanup(func() {
		x.releaseBuffers()
		x.link.close()
		client.Close()
		backend.Close()
	})
	return x, client, backend
}

// TestRelayerJoinsPause interrupts the arrival of a command for a pause. The client's idle time is still counted from before the pause.
func TestRelayerJoinsPause(t *testing.T) {
	x, client, _ := pipeRelayer(t)
	x.idle(false)
	x.interrupt(causeMove)
	if err := x.fillClient(); !errors.Is(err, errPauseBegun) {
		t.Fatalf("the read ended by %v, want a pause", err)
	}
	since := x.idleSince.Load()
	if !x.reading.Load() {
		t.Error("the client is not awaited during the pause")
	}
	x.acknowledge(causeMove)
	x.interrupt(causeMove) // the next pause
	if err := x.fillClient(); !errors.Is(err, errPauseBegun) || x.idleSince.Load() != since {
		t.Errorf("the read ended by %v, the idle time starts at %d, want %d", err, x.idleSince.Load(), since)
	}
	x.acknowledge(causeMove)
	if err := x.clearDeadlines(0); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { _, err := client.Write([]byte{1}); written <- err }()
	if err := x.fillClient(); err != nil || x.reading.Load() {
		t.Errorf("the read ended by %v, the client is still awaited: %t", err, x.reading.Load())
	}
	if err := testwait.Receive(t, "the write", written); err != nil {
		t.Error(err)
	}
	x.busy() // a command of which a part was forwarded does not wait
	x.interrupt(causeMove)
	go func() { _, err := client.Write([]byte{2}); written <- err }()
	if err := x.fillClient(); err != nil {
		t.Errorf("the read within a command ended by %v", err)
	}
	if err := testwait.Receive(t, "the write", written); err != nil {
		t.Error(err)
	}
}

// TestRelayer relays a command and its response, whose status changes the modes, and ends with a backend that leaves.
func TestRelayer(t *testing.T) {
	x, client, backend := pipeRelayer(t)
	ping, _ := mysqlwire.AppendPacket(nil, []byte{byte(mysqlwire.ComPing)}, 0)
	status := mysqlwire.StatusInTrans | mysqlwire.StatusNoBackslashEscapes
	ok, _ := mysqlwire.AppendPacket(nil, (&mysqlwire.OK{Status: status}).AppendTo(nil, mysqlwire.CapProtocol41), 1)
	// peer writes to or reads from a far end, which has no buffer.
	peer := func(what string, transfer func([]byte) (int, error), b []byte) (wait func()) {
		done := make(chan error, 1)
		go func() { _, err := transfer(b); done <- err }()
		return func() {
			if err := testwait.Receive(t, what, done); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	full := func(c net.Conn) func([]byte) (int, error) {
		return func(b []byte) (int, error) { return io.ReadFull(c, b) }
	}
	command := func() {
		sent := peer("the client's command", client.Write, ping)
		if err := errors.Join(x.readRest(mysqlwire.HeaderLen), x.bufferCommand(len(ping))); err != nil {
			t.Fatal(err)
		}
		sent()
		x.msg.cmd, x.msg.whole = mysqlwire.ComPing, true
		x.busy()
	}
	command()
	got, response := make([]byte, len(ping)), make([]byte, len(ok))
	arrived := peer("the command at the backend", full(backend), got)
	responded := peer("the backend's response", func(b []byte) (int, error) { arrived(); return backend.Write(b) }, ok)
	relayed := peer("the response at the client", full(client), response)
	if err := x.exchange(); err != nil {
		t.Fatal(err)
	}
	responded()
	relayed()
	x.consume()
	if string(got) != string(ping) || string(response) != string(ok) {
		t.Errorf("the backend received % x, the client % x", got, response)
	}
	if x.modes.status != status || x.modes.mode&sqldigest.NoBackslashEscapes == 0 || x.rec.BytesOut != uint64(len(ok)) {
		t.Errorf("the status is %#x, the mode %v, %d bytes out", x.modes.status, x.modes.mode, x.rec.BytesOut)
	}

	command()
	arrived = peer("the command at the backend", full(backend), got)
	left := peer("the backend to leave", func([]byte) (int, error) { arrived(); return 0, backend.Close() }, nil)
	if err := x.exchange(); !errors.Is(err, errBackendGone) || x.failed == nil || x.failed.errno != mysqlwire.ErrnoNetRead {
		t.Errorf("the backend left: %v, %v", err, x.failed)
	}
	left()
}

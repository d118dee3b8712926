package cutover

import (
	"errors"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestRecordFenced has a run write the record of its cutover after another run took over: no write changes it.
func TestRecordFenced(t *testing.T) {
	testmysql.SkipIfOff(t)
	server, err := testmysql.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	connect := func() *mysqlconn.Client {
		t.Helper()
		c, err := session.Connect(t.Context(), mysqlconn.Config{Addr: server.Addr, User: testmysql.RootUser, Password: testmysql.Password})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // its statements have been executed
		return c
	}
	c := connect()
	if _, err := c.Exec(t.Context(), "CREATE DATABASE _tare"); err != nil {
		t.Fatal(err)
	}
	s := state.State{Schema: state.DefaultStateSchema}
	spec := tabledef.Spec{Schema: "shop", Name: "orders"}
	spec.Defaults()
	take := func(holder *mysqlconn.Client) *state.Lease {
		t.Helper()
		l, err := state.AcquireLease(t.Context(), holder, s, []*tabledef.Spec{&spec}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	holder := connect()
	s.Lease = take(holder)
	own := &record{s.Followed("server", []tabledef.Spec{spec})}
	p := binlog.Position{File: "binlog.000001", Offset: 4}
	if err := errors.Join(s.CreateCutover(t.Context(), c), own.recordCutting(t.Context(), c, p, p), own.recordPhase(t.Context(), c, phaseCut)); err != nil {
		t.Fatal(err)
	}
	_ = holder.Close()
	testwait.Until(t, "the server notices that the holder is gone", func() bool { return s.Lease.Confirm(t.Context(), c) != nil })
	take(connect())
	later := binlog.Position{File: "binlog.000001", Offset: 500}
	for name, err := range map[string]error{
		"cutting": own.recordCutting(t.Context(), c, later, later), "reversing": own.recordPhase(t.Context(), c, phaseReversing), "forgotten": own.forget(t.Context(), c),
	} {
		if !errors.Is(err, state.ErrLeaseLost) {
			t.Errorf("%s, without the lease: %v", name, err)
		}
	}
	if is, _, err := own.load(t.Context(), c); err != nil || is.phase != phaseCut || is.source != p {
		t.Errorf("the record is %+v, %v", is, err)
	}
}

package cutover

import (
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestCounterBack raises the source's counter at the end of a reverse stream, with an account that may alter
// the table, and with one that may only write to it: then the statement is printed for the operator. An
// account that may not write is refused before clients are paused.
func TestCounterBack(t *testing.T) {
	testmysql.SkipIfOff(t)
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) { testCounterBack(t, append(opts, testmysql.WithBinlog())...) })
	}
}

func testCounterBack(t *testing.T, opts ...testmysql.Option) {
	server := testmysql.StartOrSkip(t, opts...)
	cfg := mysqlconn.Config{Addr: server.Addr, User: testmysql.RootUser, Password: testmysql.Password}
	c, err := session.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // its statements have been executed
	sqlExec := func(statements ...string) {
		t.Helper()
		for _, sql := range statements {
			if _, err := c.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	sqlExec("CREATE DATABASE counted", "CREATE DATABASE copied", "USE counted", "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY)", "INSERT INTO a VALUES (5)",
		"CREATE TABLE copied.a (id INT AUTO_INCREMENT PRIMARY KEY)", "INSERT INTO copied.a VALUES (2000)", "DELETE FROM copied.a", "CREATE DATABASE _tare")
	const few = "counter_few"
	sqlExec("CREATE USER "+few+" IDENTIFIED BY '"+testmysql.Password+"'", "GRANT ALL ON _tare.* TO "+few, "GRANT SELECT ON counted.* TO "+few)
	back, err := binlog.OpenDirect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = back.Close() }() // it only reads
	var mu sync.Mutex
	var reported []string
	raise := func(user string) error {
		options := &Options{Back: cfg}
		options.Back.User = user
		specs := []tabledef.Spec{{Schema: "counted", Name: "a", ToSchema: "copied", ToName: "a"}}
		c := &Cutover{
			o: options, back: back, state: record{&state.Following{State: state.State{Schema: state.DefaultStateSchema}}},
			copy: Copy{
				Target: cfg, Specs: specs,
				Shared: follow.Shared{Patience: testwait.Limit, Observe: func(e telemetry.Event) {
					mu.Lock()
					defer mu.Unlock()
					reported = append(reported, e.Text)
				}},
			},
		}
		if err := c.describeReversed(t.Context()); err != nil {
			return err
		}
		there, err := c.openBack(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer state.CloseLease(there.c)
		return c.raiseBack(t.Context(), there)
	}
	counter := func(want uint64) {
		t.Helper()
		table, err := rowstream.ReadTable(t.Context(), c, "counted", "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := createtable.AutoIncrement(table.Create); got != want {
			t.Errorf("the next id in the source is %d, want %d", got, want)
		}
	}
	if err := raise(few); err == nil || !strings.Contains(err.Error(), "could not go back to the source: write to counted.a: ") || !strings.Contains(err.Error(), "DELETE command denied") {
		t.Errorf("an account that may only read: %v", err)
	}
	sqlExec("GRANT INSERT, UPDATE, DELETE ON counted.* TO " + few)
	if err := raise(few); err != nil {
		t.Errorf("an account that may not alter: %v", err)
	}
	counter(6)
	if len(reported) != 1 || !strings.HasPrefix(reported[0], "the account may not alter counted.a in the source") {
		t.Fatalf("events: %q", reported)
	}
	_, statement, _ := strings.Cut(reported[0], "target: ")
	sqlExec(statement)
	counter(2001)
	sqlExec("ALTER TABLE a AUTO_INCREMENT = 6")
	if err := raise(testmysql.RootUser); err != nil || len(reported) != 1 {
		t.Errorf("an account that may alter: %v, events %q", err, reported)
	}
	counter(2001)
	testwait.UntilState(t, "all connections but two to be closed", func() (string, bool) {
		open := testrows.Column(t, c, "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Daemon' AND USER <> 'event_scheduler' AND USER <> 'system user'")
		return strings.Join(open, ", "), len(open) == 2 // this one and back's
	})
}

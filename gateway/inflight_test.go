package gateway_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// killQuery returns a function for Options.KillQuery that uses an account of the server.
func killQuery(t *testing.T) func(addr string, id uint32) error {
	return func(addr string, id uint32) error {
		c, err := mysqlconn.Dial(context.Background(), mysqlconn.Config{Addr: addr, User: testmysql.RootUser, Password: testmysql.Password})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Exec(context.Background(), fmt.Sprintf("KILL QUERY %d", id))
		return err
	}
}

// background executes f and returns its result later.
func background(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// only waits until the sessions within commands and transactions are those of the activities, and returns them.
func (r *rig) only(t *testing.T, what string, want ...gateway.Activity) []gateway.SessionInfo {
	t.Helper()
	var found []gateway.SessionInfo
	testwait.UntilState(t, what, func() (string, bool) {
		found = r.Busy(100, 0).Sessions
		var got []gateway.Activity
		for _, s := range found {
			if s.Activity > gateway.ActivityPaused && (s.Text == "" || s.StatementType == "") {
				return "a statement without a text or type", false // it is being read
			}
			got = append(got, s.Activity)
		}
		slices.Sort(got)
		slices.Sort(want)
		return fmt.Sprint(found), slices.Equal(got, want)
	})
	return found
}

// TestBusy finds sessions in each of their states, with their statements, on both servers, with loops and without.
func TestBusy(t *testing.T) {
	for name, opts := range killServers() {
		for loops, n := range map[string]int{"loops": 0, "goroutines": -1} {
			t.Run(name+"/"+loops, func(t *testing.T) {
				s := testmysql.StartOrSkip(t, opts...)
				must(t, s.Exec("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v LONGTEXT)", "INSERT INTO shop.t VALUES (1, 'a'), (2, 'b')"))
				g := startGateway(t, s.Addr, func(o *gateway.Options) { o.Loops, o.KillQuery = n, killQuery(t) })
				testStates(t, g, dialRoot(t, s.Addr))
			})
		}
	}
}

// atServer waits until the server executes a statement of the connection: a KILL QUERY that arrives before, or between two
// statements of one command, has no effect.
func atServer(t *testing.T, direct *mysqlconn.Client, connection uint32, where string) {
	t.Helper()
	testwait.Until(t, "the server to execute the statement", func() bool {
		return value(t, direct, fmt.Sprintf("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %d AND %s", connection, where)) == "1"
	})
}

func testStates(t *testing.T, g *rig, direct *mysqlconn.Client) {
	holder, waiter := dialRoot(t, g.addr), dialRoot(t, g.addr)
	for _, q := range []string{"USE shop", "BEGIN", "UPDATE t SET v = 'x' WHERE id = 1"} {
		_, err := testscript.Exec(t, holder, q)
		must(t, err)
	}
	idle := g.only(t, "the transaction to be idle", gateway.ActivityTransaction)[0]
	if idle.Transaction.IsZero() || idle.Since.Before(idle.Transaction) || idle.Schema != "shop" || idle.User != testmysql.RootUser || idle.Digest.String() == "" {
		t.Errorf("the idle transaction is %+v", idle)
	}

	// A text statement that waits for a lock.
	update := background(func() error {
		_, err := waiter.Exec(context.Background(), "UPDATE shop.t SET v = 'secret' WHERE id = 1")
		return err
	})
	both := g.only(t, "a statement to wait for the lock", gateway.ActivityBackend, gateway.ActivityTransaction)
	if both[0].Activity != gateway.ActivityBackend {
		t.Errorf("the statement in flight is not the first: %+v", both)
	}
	found := both[0]
	if found.Text != "UPDATE `shop`.`t` SET `v` = ? WHERE `id` = ?" || found.Name != "Query" || found.StatementType != "update" || found.Connection != waiter.ConnectionID || found.Rows != 0 {
		t.Errorf("the statement in flight is %+v", found)
	}
	visited := 0
	g.InFlight(func(r gateway.Running) {
		visited++
		if r.Age <= 0 || r.Record.Digest != found.Digest || r.Session != found.Number || r.Record.User != testmysql.RootUser || r.Unknown {
			t.Errorf("the running statement is %+v of %+v", r, r.Record)
		}
	})
	if visited != 1 {
		t.Errorf("%d statements visited, want 1", visited)
	}
	if listed := g.Busy(100, time.Hour).Sessions; len(listed) != 1 || listed[0].Activity != gateway.ActivityTransaction {
		t.Errorf("older than an hour: %+v", listed)
	}
	if n := g.metric(t, "tare_sessions", "waiting-for-backend"); n != 1 {
		t.Errorf("%d sessions wait for the backend by the metric", n)
	}

	// Kills: the one of another command has no effect, the right one ends the statement, and not the session.
	if _, err := g.Kill(gateway.Kill{Session: found.Number, Command: found.Command - 1}); !errors.Is(err, gateway.ErrOtherNow) {
		t.Errorf("kill of the previous command: %v", err)
	}
	atServer(t, direct, found.Connection, "INFO LIKE 'UPDATE%'")
	must(t, g.killAtBackend(t, gateway.Kill{Session: found.Number, Command: found.Command}))
	if got := number(testwait.Receive(t, "the update to end", update)); got != 1317 {
		t.Errorf("the killed statement has error %d", got)
	}
	if _, err := testscript.Exec(t, waiter, "SELECT 1"); err != nil {
		t.Errorf("the session after the kill: %v", err)
	}
	if _, err := g.Kill(gateway.Kill{Session: found.Number, Command: found.Command}); !errors.Is(err, gateway.ErrOtherNow) {
		t.Errorf("kill of a statement that has ended: %v", err)
	}

	// A prepared statement, and several statements in one text.
	prepared, err := waiter.Prepare(t.Context(), []byte("SELECT v, SLEEP(?) FROM shop.t WHERE id = 2"))
	must(t, err)
	several := openAt(t, g.addr)
	for command, run := range map[string]func() error{
		"Execute": func() error {
			_, err := waiter.Execute(context.Background(), prepared.StatementID, []mysqlwire.BinaryValue{{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLong}, Data: binary.LittleEndian.AppendUint32(nil, 1000)}}, func([]byte) error { return nil })
			return err
		},
		"Query": func() error {
			_, err := several.ExecContext(context.Background(), "SELECT 1; SELECT SLEEP(1000); SELECT 2")
			return err
		},
	} {
		ended := background(run)
		var found gateway.SessionInfo
		testwait.UntilState(t, command+" to sleep at the backend", func() (string, bool) {
			list := g.Busy(100, 0).Sessions
			found = list[0]
			return fmt.Sprint(list), found.Name == command && strings.Contains(found.Text, "SLEEP") && found.Activity != gateway.ActivityTransaction
		})
		atServer(t, direct, found.Connection, "STATE = 'User sleep'")
		must(t, g.killAtBackend(t, gateway.Kill{Session: found.Number, Command: found.Command}))
		_ = testwait.Receive(t, "the killed "+command+" to end", ended) // SLEEP returns 1, or the statement fails
	}

	// A client that does not read its response.
	slow := dialRoot(t, g.addr)
	_, err = slow.Stream(t.Context(), "SELECT REPEAT('x', 1000000) FROM shop.t a, shop.t b, shop.t c, shop.t d, shop.t e, shop.t f")
	must(t, err)
	slowly := g.only(t, "the client not to read", gateway.ActivityClient, gateway.ActivityTransaction)[0]
	if slowly.Rows == 0 || slowly.Rows >= 64 {
		t.Errorf("%d rows sent to the slow client", slowly.Rows)
	}

	// Sessions are killed: one with a slow client, and one within a transaction.
	for _, victim := range []gateway.SessionInfo{slowly, idle} {
		_, err := g.Kill(gateway.Kill{Session: victim.Number, Whole: true})
		must(t, err)
	}
	testwait.Until(t, "the killed sessions to end", func() bool { return len(g.Busy(100, 0).Sessions) == 0 })
	if _, err := testscript.Exec(t, holder, "SELECT 1"); err == nil {
		t.Error("the killed session is alive")
	}
	if _, err := g.Kill(gateway.Kill{Session: idle.Number, Whole: true}); !errors.Is(err, gateway.ErrNoSession) {
		t.Errorf("kill of a session that has ended: %v", err)
	}
	if _, err := testscript.Exec(t, waiter, "UPDATE shop.t SET v = 'z' WHERE id = 1"); err != nil {
		t.Errorf("the killed transaction was not rolled back: %v", err)
	}
}

// number returns the number of the server's error, 0 without one, -1 for another error.
func number(err error) int {
	if e, ok := testscript.ServerError(err); ok {
		return int(e.Number)
	}
	if err != nil {
		return -1
	}
	return 0
}

// TestKillAfterEnd has a statement finish while its KILL QUERY is on the way: the session's next statement waits, and
// is not killed.
func TestKillAfterEnd(t *testing.T) {
	for name, opts := range killServers() {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, opts...)
			arrived, proceed := make(chan struct{}, 1), make(chan struct{})
			kill := killQuery(t)
			g := startGateway(t, s.Addr, func(o *gateway.Options) {
				o.KillQuery = func(addr string, id uint32) error {
					arrived <- struct{}{}
					<-proceed
					return kill(addr, id)
				}
			})
			direct := dialRoot(t, s.Addr)
			_, err := testscript.Exec(t, direct, "SELECT GET_LOCK('a', 0)")
			must(t, err)
			c := dialRoot(t, g.addr)
			ended := background(func() error {
				_, err := c.Exec(context.Background(), "SELECT GET_LOCK('a', 1000)")
				return err
			})
			victim := g.only(t, "the statement to wait", gateway.ActivityBackend)[0]
			killed := background(func() error { return g.killAtBackend(t, gateway.Kill{Session: victim.Number, Command: victim.Command}) })
			testwait.Receive(t, "the KILL to be sent", arrived)
			if _, err := g.Kill(gateway.Kill{Session: victim.Number, Command: victim.Command}); !errors.Is(err, gateway.ErrBeingKilled) {
				t.Errorf("a second kill: %v", err)
			}
			_, err = testscript.Exec(t, direct, "SELECT RELEASE_LOCK('a')")
			must(t, err)
			must(t, testwait.Receive(t, "the statement to finish", ended))
			var next string
			ended = background(func() error {
				_, err := c.Query(context.Background(), "SELECT 'next', SLEEP(0.1)", func(r mysqlwire.TextRow) error { next = string(r[0]) + string(r[1]); return nil })
				return err
			})
			testwait.Until(t, "the next statement to arrive", func() bool {
				list := g.Busy(1, 0).Sessions
				return len(list) == 1 && list[0].Command == victim.Command+1
			})
			if _, err := g.Kill(gateway.Kill{Session: victim.Number, Command: victim.Command + 1}); !errors.Is(err, gateway.ErrNotSent) {
				t.Errorf("kill of a command that waits for a kill: %v", err)
			}
			close(proceed)
			must(t, testwait.Receive(t, "the kill to return", killed))
			must(t, testwait.Receive(t, "the next statement to end", ended))
			if next != "next0" {
				t.Errorf("the next statement returned %q: it was killed", next)
			}
			if _, err := testscript.Exec(t, c, "SELECT 1"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBusyPaused lists a session whose command waits for the end of a pause: its session can be killed, its statement not.
func TestBusyPaused(t *testing.T) {
	p := startPair(t, func(o *gateway.Options) { o.KillQuery = killQuery(t) })
	c := p.session(t)
	p.mustHold(t, gateway.MaxPause)
	done := waiting(t, p, c, "INSERT INTO note (id) VALUES (1)")
	found := p.only(t, "the paused session", gateway.ActivityPaused)[0]
	if found.Name != "Query" || found.User != "app" || found.Since.IsZero() {
		t.Errorf("the paused session is %+v", found)
	}
	if _, err := p.Kill(gateway.Kill{Session: found.Number, Command: found.Command}); !errors.Is(err, gateway.ErrNotSent) {
		t.Errorf("kill of the statement: %v", err)
	}
	_, err := p.Kill(gateway.Kill{Session: found.Number, Whole: true})
	must(t, err)
	if got := number(testwait.Receive(t, "the session to end", done)); got != int(mysqlwire.ErrnoConnectionKilled) {
		t.Errorf("the killed client got error %d", got)
	}
	p.ExpirePause()
	if n := count(t, p.servers[0]); n != 0 {
		t.Errorf("the killed statement was executed %d times", n)
	}
}

// TestBusyMany lists many sessions that execute statements all the time, while they come and go: each listed session has its
// own user's name and text, and the list its limit.
func TestBusyMany(t *testing.T) {
	for name, loops := range map[string]int{"loops": 2, "goroutines": -1} {
		t.Run(name, func(t *testing.T) {
			g := startGateway(t, testscript.Start(t, cannedBackend), func(o *gateway.Options) { o.Loops, o.Observers = loops, nil })
			const n = 200
			var clients sync.WaitGroup
			stop := make(chan struct{})
			for i := range n {
				c := testscript.MustConnect(t, g.addr).Conn
				command := testscript.Packets(0, append([]byte{byte(mysqlwire.ComQuery)}, fmt.Sprintf("SELECT c FROM sbtest%d WHERE id=50123", i)...))
				clients.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := testscript.RoundTrip(c, command, textResult); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			seen, texts := 0, 0
			testwait.UntilState(t, "statements with texts to be listed", func() (string, bool) {
				b := g.Busy(50, 0)
				if len(b.Sessions) > 50 {
					t.Errorf("%d sessions listed", len(b.Sessions))
				}
				for _, s := range b.Sessions {
					seen++
					if s.Text != "" {
						texts++
						if !strings.HasPrefix(s.Text, "SELECT `c` FROM `sbtest") {
							t.Errorf("the text is %q", s.Text)
						}
					}
				}
				total := 0
				for _, k := range b.Counts {
					total += k
				}
				if total != n {
					t.Errorf("%d sessions counted, want %d", total, n)
				}
				return fmt.Sprintf("%d listed, %d with texts", seen, texts), texts > 0
			})
			close(stop)
			testwait.Group(t, "the clients to end", &clients)
		})
	}
}

// killAtBackend kills a statement that may not have been sent yet, although it is listed.
func (r *rig) killAtBackend(t *testing.T, k gateway.Kill) (err error) {
	t.Helper()
	testwait.Until(t, "the statement to be sent", func() bool {
		_, err = r.Kill(k)
		return !errors.Is(err, gateway.ErrNotSent)
	})
	return err
}

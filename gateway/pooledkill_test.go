package gateway_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestKillSharedForms kills clients that share connections by the ids of their greetings, in every form: a form ends that session or is
// the error of a server that has no such connection, and another client's connection stays.
func TestKillSharedForms(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		t.Parallel()
		r := startPooled(t, s, 2, nil)
		as := func(c *mysqlconn.Config) { c.User = testmysql.RootUser }
		bystander := dialPooled(t, r.addr, "", as)
		must(t, s.Exec("create database if not exists test"))
		direct := openAt(t, s.Addr)
		ended := map[string]bool{}
		for _, form := range killForms() {
			victim := dialPooled(t, r.addr, "", as)
			killers := openAt(t, r.addr)
			errno := killerError(form.run(t.Context(), killers, victim.ConnectionID))
			killers.Close()
			switch _, err := testscript.Exec(t, victim, "SELECT 1"); {
			case errno == 0:
				testwait.Until(t, form.text+" to end the session", func() bool {
					_, err := testscript.Exec(t, victim, "SELECT 1")
					return err != nil
				})
				ended[form.text] = true
			case err != nil:
				t.Errorf("%s: error %d, and the session has ended: %v", form.text, errno, err)
			case errno != 1094:
				if want := killerError(form.run(t.Context(), direct, 1<<31)); errno != want {
					t.Errorf("%s: error %d, directly %d", form.text, errno, want)
				}
			}
			if _, err := testscript.Exec(t, bystander, "SELECT 1"); err != nil {
				t.Fatalf("%s: another client: %v", form.text, err)
			}
		}
		_, err := direct.Prepare("KILL ?")
		dynamic := err == nil // not on MySQL 9
		for _, text := range []string{"KILL %", "KILL CONNECTION %", "KILL ?", "KILL CONNECTION ?"} {
			if !ended[text] && (dynamic || !strings.Contains(text, "?")) {
				t.Errorf("%s ends no session", text)
			}
		}
	})
}

// TestKillSharedPrepared kills the statement of a client that shares connections by a prepared KILL QUERY, and then a client that executes
// nothing, whose connection is another one's by then. The id is a parameter where the server permits that.
func TestKillSharedPrepared(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		t.Parallel()
		r := startPooled(t, s, 2, nil)
		victim, killer, other := dialPooled(t, r.addr, "", nil), dialPooled(t, r.addr, "", nil), dialPooled(t, r.addr, "", nil)
		_, err := killer.Prepare(t.Context(), []byte("KILL QUERY ?"))
		dynamic := err == nil
		holder := dialPooled(t, s.Addr, "", nil)
		waits := func(c *mysqlconn.Client) chan string {
			one(t, holder, "SELECT GET_LOCK('l', 0)")
			done := make(chan string, 1)
			go func() {
				var got string
				_, err := c.Query(t.Context(), "SELECT GET_LOCK('l', 1000)", func(r mysqlwire.TextRow) error {
					got = string(r[0])
					return nil
				})
				if err != nil {
					got = err.Error()
				}
				done <- got
			}()
			testwait.Until(t, "the statement", func() bool {
				return one(t, holder, "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'")[0] == "1"
			})
			return done
		}
		kill := func(id mysqlwire.BinaryValue) {
			text, params := "KILL QUERY ?", []mysqlwire.BinaryValue{id}
			if !dynamic {
				text, params = "KILL QUERY "+uintText(victim.ConnectionID), nil
			}
			st, err := killer.Prepare(t.Context(), []byte(text))
			must(t, err)
			_, err = killer.Execute(t.Context(), st.StatementID, params, func([]byte) error { return nil })
			must(t, err)
		}
		for _, id := range []mysqlwire.BinaryValue{
			{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLong, Unsigned: true}, Data: littleEndian(victim.ConnectionID)},
			{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}, Data: []byte(uintText(victim.ConnectionID))},
		} {
			done := waits(victim)
			kill(id)
			if got := <-done; got == "1" {
				t.Error("the statement was not killed")
			}
			one(t, holder, "SELECT RELEASE_LOCK('l')")
			must(t, victim.Send(t.Context(), []byte{byte(mysqlwire.ComResetConnection)}))
			done = waits(other) // on the victim's connection of before, if that is not closed
			kill(id)
			one(t, holder, "SELECT RELEASE_LOCK('l')")
			if got := <-done; got != "1" {
				t.Errorf("the statement of another client: %s", got)
			}
			one(t, other, "SELECT RELEASE_LOCK('l')")
		}
	})
}

func littleEndian(n uint32) []byte {
	return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
}

// TestKillSharedElsewhere sends the KILL of a client of one gateway to another one: it fails, and kills no client of that one. The ids
// are positive for drivers that take them for signed integers.
func TestKillSharedElsewhere(t *testing.T) {
	s := testmysql.Start(t)
	var clients [2][]*mysqlconn.Client
	for i := range clients {
		r := startPooled(t, s, 1, nil)
		for range 3 {
			clients[i] = append(clients[i], dialPooled(t, r.addr, "", nil))
		}
	}
	for _, c := range clients[0] {
		if int32(c.ConnectionID) <= 0 {
			t.Errorf("id %d is negative in 32 bits", c.ConnectionID)
		}
		_, err := clients[1][0].Exec(t.Context(), "KILL "+uintText(c.ConnectionID))
		if e := refusal(t, "a KILL of another gateway's client", err); e.Number != 1094 {
			t.Errorf("error %d: %s", e.Number, e.Message)
		}
	}
	for _, c := range append(clients[0], clients[1]...) {
		one(t, c, "select 1")
	}
}

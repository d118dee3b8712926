package mysqlconn

import (
	"errors"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestKilled makes the server close the connection in the middle of a statement.
func TestKilled(t *testing.T) {
	s := testmysql.Shared(t)
	c, err := Dial(t.Context(), Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), "KILL CONNECTION_ID()")
	if err == nil {
		t.Error("the statement that killed its connection succeeded")
	}
	if refused, ok := errors.AsType[*ServerError](err); ok &&
		(refused.Number != mysqlwire.ErrnoConnectionKilled && refused.Number != mysqlwire.ErrnoQueryInterrupted ||
			refused.State != refused.Number.State()) {
		t.Errorf("got %v, want error 1927 or 1317 with the SQLSTATE we know", err)
	}
	if err := c.Ping(t.Context()); err == nil {
		t.Error("a killed connection answers")
	}
	_ = c.Close() // the server has closed first
}

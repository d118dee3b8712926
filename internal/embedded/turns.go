package embedded

import (
	"context"
	"strings"
	"sync"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// A turns handler lets one statement at a time at the tables: the engine's in-memory
// tables are sorted in place by a write while a reader walks over them. Statements that
// read no table, such as SELECT SLEEP(1), do not wait for their turn and keep no one
// waiting. It also ends the statements that are running when the engine closes, which the
// server would wait for.
type turns struct {
	mysql.Handler
	turn    *sync.Mutex
	closing context.Context // done when the engine closes
}

// ComQuery implements mysql.Handler.
func (h turns) ComQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) error {
	defer h.take(query)()
	ctx, cancel := h.untilClosing(ctx)
	defer cancel()
	return h.Handler.ComQuery(ctx, c, query, callback)
}

// ComMultiQuery implements mysql.Handler. The server calls it for the first of several
// statements and then for what is left of them, so the whole rest decides.
func (h turns) ComMultiQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) (string, error) {
	defer h.take(query)()
	ctx, cancel := h.untilClosing(ctx)
	defer cancel()
	return h.Handler.ComMultiQuery(ctx, c, query, callback)
}

// ComPrepare implements mysql.Handler.
func (h turns) ComPrepare(ctx context.Context, c *mysql.Conn, query string, prepare *mysql.PrepareData) ([]*querypb.Field, error) {
	defer h.take(query)()
	return h.Handler.ComPrepare(ctx, c, query, prepare)
}

// ComStmtExecute implements mysql.Handler.
func (h turns) ComStmtExecute(ctx context.Context, c *mysql.Conn, prepare *mysql.PrepareData, callback func(*sqltypes.Result) error) error {
	defer h.take(prepare.PrepareStmt)()
	ctx, cancel := h.untilClosing(ctx)
	defer cancel()
	return h.Handler.ComStmtExecute(ctx, c, prepare, callback)
}

// untilClosing is a statement's context, which ends with the engine.
func (h turns) untilClosing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// take waits for the turn of a statement, unless it needs none, and answers what gives it
// back.
func (h turns) take(query string) (give func()) {
	if readsNoTable(query) {
		return func() {}
	}
	h.turn.Lock()
	return h.turn.Unlock
}

// readsNoTable says that a statement surely reads no table. When in doubt it says no.
func readsNoTable(query string) bool {
	q := strings.ToLower(strings.TrimSpace(query))
	return strings.HasPrefix(q, "select") && !strings.Contains(q, "from") && !strings.Contains(q, ";")
}

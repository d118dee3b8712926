package embedded

import (
	"context"
	"strings"
	"sync"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// A turns handler lets one statement at a time access the tables: a write sorts the engine's in-memory tables
// in place while a reader may iterate over them. Statements that read no table, such as SELECT SLEEP(1),
// neither wait nor block others. It also cancels the running statements when the engine closes, because the
// server would wait for them.
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

// ComMultiQuery implements mysql.Handler. The server calls it for the first of several statements and then
// for the rest, so the whole rest decides.
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

// untilClosing returns a statement's context, which is done when the engine closes.
func (h turns) untilClosing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// take waits for a statement's turn, unless it needs none, and returns the function that ends the turn.
func (h turns) take(query string) (give func()) {
	if readsNoTable(query) {
		return func() {}
	}
	h.turn.Lock()
	return h.turn.Unlock
}

// readsNoTable reports whether a statement certainly reads no table.
func readsNoTable(query string) bool {
	q := strings.ToLower(strings.TrimSpace(query))
	return strings.HasPrefix(q, "select") && !strings.Contains(q, "from") && !strings.Contains(q, ";")
}

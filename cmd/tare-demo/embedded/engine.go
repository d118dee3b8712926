package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/sirupsen/logrus"
)

// Database is the name of the shop's schema.
const Database = "shop"

// acceptBackoff is the pause after a failed accept: the engine's accept loop retries immediately and would
// use a whole CPU.
const acceptBackoff = 10 * time.Millisecond

// writeTimeout is the time limit for a client to read a result.
const writeTimeout = 10 * time.Second

// An Engine is a running server. It is safe for concurrent use.
type Engine struct {
	listener *trackingListener
	server   *server.Server
	engine   *sqle.Engine
	rows     int
	accepted chan struct{} // closed when the accept loop has returned
	close    func()        // cancels the running statements
}

// Start fills the shop and serves it on addr ("127.0.0.1:0" picks a free port). When it returns, the server
// accepts statements.
//
// The engine logs through logrus's process-wide logger, which Start silences: an error reaches the client
// that caused it.
func Start(ctx context.Context, addr string) (*Engine, error) {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.PanicLevel)

	db := memory.NewDatabase(Database)
	db.EnablePrimaryKeyIndexes()
	provider := memory.NewDBProvider(db)
	engine := sqle.NewDefault(provider)

	session := memory.NewSession(sql.NewBaseSession(), provider)
	sqlCtx := sql.NewContext(ctx, sql.WithSession(session))
	sqlCtx.SetCurrentDatabase(Database)
	rows, err := fillShop(func(stmt string) error { return exec(sqlCtx, engine, stmt) })
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}

	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the embedded engine: %w", err), engine.Close())
	}
	tracking := newTrackingListener(l, acceptBackoff)
	closing, endStatements := context.WithCancel(context.WithoutCancel(ctx))
	takeTurns := func(h mysql.Handler) (mysql.Handler, error) {
		return turns{Handler: h, turn: new(sync.Mutex), closing: closing}, nil
	}
	srv, err := server.NewServerWithHandler(server.Config{
		Protocol: "tcp",
		Address:  l.Addr().String(),
		Listener: tracking,
		// The server's value for "statements are not logged".
		MaxLoggedQueryLen: -1,
		// A client that stops reading a result would block the tables.
		ConnWriteTimeout: writeTimeout,
	}, engine, sql.NewContext, memory.NewSessionBuilder(provider), nil, takeTurns)
	if err != nil {
		endStatements()
		return nil, errors.Join(fmt.Errorf("start the embedded engine: %w", err), l.Close(), engine.Close())
	}

	e := &Engine{listener: tracking, server: srv, engine: engine, rows: rows, accepted: make(chan struct{}), close: endStatements}
	go func() {
		defer close(e.accepted)
		srv.Listener.Accept()
	}()
	return e, nil
}

// Addr returns the address of the engine, as host:port.
func (e *Engine) Addr() string { return e.listener.Addr().String() }

// Rows returns the number of rows in the shop at start.
func (e *Engine) Rows() int { return e.rows }

// Close stops accepting, ends every statement and connection, and waits until all are closed.
func (e *Engine) Close() error {
	e.server.Listener.Close()
	<-e.accepted
	e.close()
	e.listener.closeConns()
	// The engine cancels its background threads and reports that as an error.
	if err := e.engine.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the embedded engine: %w", err)
	}
	return nil
}

// exec runs one statement and commits it.
func exec(ctx *sql.Context, engine *sqle.Engine, stmt string) error {
	_, rows, _, err := engine.Query(ctx, stmt)
	if err != nil {
		return err
	}
	_, err = sql.RowIterToRows(ctx, rows)
	return err
}

package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// An observer of finished statements.
type printer struct{}

func (printer) Observe(r *querylog.Record) {
	fmt.Printf("%s %q: %d rows affected, error %d\n", r.StatementType, r.Normalized, r.RowsAffected, r.ErrorNumber)
}

// A gateway relays a client to a server, and observers receive a record of each statement.
func ExampleServer() {
	backend, stop := startBackend()
	defer stop()
	planner, err := sqlplan.New(sqlplan.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	log, err := querylog.New(querylog.Options{RingBytes: -1}) // no sinks
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := gateway.New(gateway.Options{
		Backend:   gateway.Backend{Addr: backend},
		Planner:   planner,
		Log:       log,
		Observers: []gateway.Observer{printer{}},
		Diag:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(listener) })

	ctx := context.Background()
	client, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: listener.Addr().String(), User: "app", TLSMode: mysqlconn.TLSDisabled})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Exec(ctx, "UPDATE goods SET price = 12 WHERE id = 7")
	_ = client.Close()

	g.Shutdown(ctx) // waits for the sessions, hence for their records
	serving.Wait()
	_ = log.Close(ctx)
	fmt.Println("client:", err)
	// Output:
	// update "UPDATE `goods` SET `price` = ? WHERE `id` = ?": 1 rows affected, error 0
	// client: <nil>
}

// startBackend starts a MySQL server that changes one row per statement.
func startBackend() (addr string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	oneRow := mysqlwire.OK{AffectedRows: 1, Status: mysqlwire.StatusAutocommit}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer nc.Close()
				c := mysqlconn.New(nc)
				for ok := testscript.Login(c); ok && testscript.Command(c) != nil; {
					ok = c.WriteMessage(oneRow.AppendTo(nil, testscript.Capabilities)) == nil
				}
			})
		}
	})
	return l.Addr().String(), func() { _ = l.Close(); conns.Wait() }
}

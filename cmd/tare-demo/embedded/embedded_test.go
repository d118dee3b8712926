package embedded_test

import (
	"database/sql"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/taredb/tare/cmd/tare-demo/embedded"
	"github.com/taredb/tare/internal/testwait"
)

func TestMain(m *testing.M) {
	// The engine keeps a few goroutines for the life of the process.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

func start(t *testing.T) (*embedded.Engine, *sql.DB) {
	t.Helper()
	e, err := embedded.Start(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return e, open(t, e)
}

func open(t *testing.T, e *embedded.Engine) *sql.DB {
	t.Helper()
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", e.Addr(), "root", embedded.Database
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func TestShopIsFilledAndResponds(t *testing.T) {
	e, db := start(t)
	total := 0
	for _, table := range []string{"customers", "products", "orders", "order_items", "visits"} {
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
			t.Fatalf("count %s: %v", table, err)
		}
		if n == 0 {
			t.Errorf("table %s is empty", table)
		}
		total += n
	}
	if total != e.Rows() {
		t.Errorf("the tables hold %d rows, the engine says %d", total, e.Rows())
	}
	if total < 9_000 || total > 12_000 {
		t.Errorf("the shop holds %d rows, want some 10,000", total)
	}
	var email string
	if err := db.QueryRowContext(t.Context(), "SELECT email FROM customers WHERE id = ?", 417).Scan(&email); err != nil {
		t.Fatal(err)
	}
	if want := "customer417@shop.example"; email != want {
		t.Errorf("customer 417 has email %q, want %q", email, want)
	}
}

func TestCloseEndsIdleConnections(t *testing.T) {
	e, err := embedded.Start(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := open(t, e).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := conn.PingContext(t.Context()); err == nil {
		t.Error("a connection still answers after Close")
	}
}

func TestAddressInUseIsAnError(t *testing.T) {
	e, _ := start(t)
	second, err := embedded.Start(t.Context(), e.Addr())
	if err == nil {
		_ = second.Close()
		t.Fatalf("a second engine started on %s", e.Addr())
	}
}

// TestReadersAndWritersTakeTurns serves the race detector, and detects a panic of the engine, whose tables do
// not support a reader beside a writer.
func TestReadersAndWritersTakeTurns(t *testing.T) {
	_, db := start(t)
	var clients sync.WaitGroup
	for _, stmt := range []string{
		"UPDATE products SET stock = stock - 1 WHERE id = 5",
		"REPLACE INTO carts VALUES (7, 8, 9)",
		"DELETE FROM carts WHERE customer_id = 7",
		"SELECT id, price FROM products WHERE id IN (3, 4, 5)",
		"SELECT category, COUNT(*) FROM products GROUP BY category",
	} {
		clients.Go(func() {
			for range 40 {
				if _, err := db.ExecContext(t.Context(), stmt); err != nil {
					t.Errorf("%s: %v", stmt, err)
					return
				}
			}
		})
	}
	testwait.Group(t, "the clients", &clients)
}

// TestWaitingKeepsNoOneWaiting has a statement sleep for an hour while another one reads a table, and then
// closes the engine, which ends the sleep.
func TestWaitingKeepsNoOneWaiting(t *testing.T) {
	e, err := embedded.Start(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, e)
	slept := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), "SELECT SLEEP(3600)")
		slept <- err
	}()
	var n int
	testwait.Until(t, "the sleeping statement to run", func() bool {
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM products").Scan(&n); err != nil || n != embedded.Products {
		t.Errorf("counted %d products, %v; want %d", n, err, embedded.Products)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, "the sleeping statement to return", slept); err == nil {
		t.Error("the statement slept for an hour")
	}
}

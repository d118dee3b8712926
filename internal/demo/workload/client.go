package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// statementTimeout bounds a statement without a response.
	statementTimeout = 30 * time.Second

	// reconnectPause limits the rate of reconnects to an unreachable server.
	reconnectPause = 200 * time.Millisecond
)

// A client owns one connection and uses it until it is stopped.
type client struct {
	db     *sql.DB
	shop   Shop
	turn   *sync.Mutex // locked during a transaction, shared by all clients
	rng    *rand.Rand
	notify *counters

	release *atomic.Bool // a release that queries in a loop is deployed

	conn    *sql.Conn
	product *sql.Stmt // closed with conn
	toCart  *sql.Stmt
}

// run works until stop is closed. It completes the current statement, so that the server sees no broken
// connection.
func (c *client) run(stop <-chan struct{}, picker picker) {
	defer c.disconnect()
	for {
		select {
		case <-stop:
			return
		default:
		}
		if c.conn == nil {
			if err := c.connect(); err != nil {
				c.disconnect()
				c.notify.failed(err)
				select {
				case <-stop:
				case <-time.After(reconnectPause):
				}
				continue
			}
		}
		c.step(picker.pick(c.rng))
	}
}

// step runs one shape and counts its outcome.
func (c *client) step(s *shape) {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	err := s.run(ctx, c)
	c.notify.shape(s.name)
	if s.provoked == 0 && err == nil {
		return
	}
	fromServer, responded := errors.AsType[*mysql.MySQLError](err)
	switch {
	case responded && fromServer.Number == s.provoked:
		c.notify.provoked()
		return
	case err == nil:
		err = fmt.Errorf("the server did not return error %d", s.provoked)
	}
	c.notify.failed(fmt.Errorf("%s: %w", s.name, err))
	if !responded {
		c.disconnect()
	}
}

func (c *client) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.conn = conn
	if c.product, err = conn.PrepareContext(ctx, "SELECT name, price, stock FROM products WHERE id = ?"); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if c.toCart, err = conn.PrepareContext(ctx, "REPLACE INTO carts (customer_id, product_id, quantity) VALUES (?, ?, ?)"); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	return nil
}

// disconnect sends COM_QUIT; a broken connection is only closed.
func (c *client) disconnect() {
	for _, s := range []*sql.Stmt{c.product, c.toCart} {
		if s != nil {
			_ = s.Close()
		}
	}
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn, c.product, c.toCart = nil, nil, nil
}

// query runs a statement as text and reads its rows.
func (c *client) query(ctx context.Context, text string) error {
	return c.read(c.conn.QueryContext(ctx, text))
}

// exec runs a statement that returns no rows.
func (c *client) exec(ctx context.Context, text string) error {
	_, err := c.conn.ExecContext(ctx, text)
	return c.done(err)
}

// read reads a result to its end.
func (c *client) read(rows *sql.Rows, err error) error {
	if err != nil {
		return c.done(err)
	}
	for rows.Next() {
		// The rows only have to be relayed; the client does not use them.
	}
	return c.done(errors.Join(rows.Err(), rows.Close()))
}

// done counts a statement and returns its error.
func (c *client) done(err error) error {
	c.notify.statement()
	return err
}

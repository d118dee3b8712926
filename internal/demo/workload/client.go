package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// statementTimeout ends a statement that the server does not answer.
	statementTimeout = 30 * time.Second

	// reconnectPause keeps clients from dialling a server that is gone as fast as they can.
	reconnectPause = 200 * time.Millisecond
)

// A client owns one connection and works through it until it is told to stop.
type client struct {
	db   *sql.DB
	shop Shop
	turn *sync.Mutex // held for a transaction, shared by all clients
	rng  *rand.Rand
	tell *counters

	conn    *sql.Conn
	product *sql.Stmt // closed with conn
	toCart  *sql.Stmt
}

// run works until stop is closed. Statements under way are completed, so that the server
// sees no connection break off.
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
				c.tell.failed(err)
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

// step runs one shape and counts how it ended.
func (c *client) step(s *shape) {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	err := s.run(ctx, c)
	c.tell.shape(s.name)
	if s.provoked == 0 && err == nil {
		return
	}
	fromServer, answered := errors.AsType[*mysql.MySQLError](err)
	switch {
	case answered && fromServer.Number == s.provoked:
		c.tell.provoked()
		return
	case err == nil:
		err = fmt.Errorf("the server did not return error %d", s.provoked)
	}
	c.tell.failed(fmt.Errorf("%s: %w", s.name, err))
	if !answered {
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

// disconnect says good-bye to the server; a connection that is broken already has no one
// left to tell.
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

// read goes through a result to its end.
func (c *client) read(rows *sql.Rows, err error) error {
	if err != nil {
		return c.done(err)
	}
	for rows.Next() {
		// The rows are there to be relayed; nobody looks at them.
	}
	return c.done(errors.Join(rows.Err(), rows.Close()))
}

// done counts a statement and passes its error on.
func (c *client) done(err error) error {
	c.tell.statement()
	return err
}

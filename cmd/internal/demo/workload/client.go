package workload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	// statementTimeout bounds a statement without a response.
	statementTimeout = 30 * time.Second

	// reconnectPause limits the rate of reconnects to an unreachable server.
	reconnectPause = 200 * time.Millisecond
)

// A client owns one connection and uses it until it is stopped.
type client struct {
	cfg    mysqlconn.Config
	shop   Shop
	turn   *sync.Mutex // locked during a transaction, shared by all clients
	rng    *rand.Rand
	notify *counters

	release *atomic.Bool // a release that queries in a loop is deployed

	conn            *mysqlconn.Client // nil: not connected
	product, toCart uint32            // prepared statements of conn
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
	fromServer, responded := errors.AsType[*mysqlconn.ServerError](err)
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
	conn, err := mysqlconn.Dial(ctx, c.cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.conn = conn
	for _, p := range []struct {
		id  *uint32
		sql string
	}{
		{&c.product, "SELECT name, price, stock FROM products WHERE id = ?"},
		{&c.toCart, "REPLACE INTO carts (customer_id, product_id, quantity) VALUES (?, ?, ?)"},
	} {
		prepared, err := conn.Prepare(ctx, []byte(p.sql))
		if err != nil {
			return err
		}
		*p.id = prepared.StatementID
	}
	return nil
}

// disconnect sends COM_QUIT; a broken connection is only closed.
func (c *client) disconnect() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn = nil
}

// exec runs a statement as text, and reads and discards its rows.
func (c *client) exec(ctx context.Context, text string) error {
	_, err := c.conn.Exec(ctx, text)
	return c.done(err)
}

// execute runs a prepared statement with integers, and reads and discards its rows.
func (c *client) execute(ctx context.Context, statement uint32, values ...int) error {
	params := make([]mysqlwire.BinaryValue, len(values))
	for i, v := range values {
		params[i] = mysqlwire.BinaryValue{Data: binary.LittleEndian.AppendUint64(nil, uint64(v)), ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong}}
	}
	_, err := c.conn.Execute(ctx, statement, params, func([]byte) error { return nil })
	return c.done(err)
}

// done counts a statement and returns its error.
func (c *client) done(err error) error {
	c.notify.statement()
	return err
}

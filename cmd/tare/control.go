package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlconn/session"
)

// killTimeout bounds one KILL, including connecting.
const killTimeout = 5 * time.Second

// errnoNoSuchThread is the server's error for a KILL of a connection that does not exist.
const errnoNoSuchThread = 1094

// newKiller returns a function that kills a connection on a server through the control account: at the
// account's address for the backend, at the server's for another one. A connection that no longer exists is
// not an error.
func newKiller(c config.ControlURL, backend config.Address) func(addr string, connectionID uint32) error {
	cfg := mysqlServer(c, mysqlconn.TLSPreferred, nil)
	return func(addr string, id uint32) error {
		cfg := cfg
		if addr != string(backend) {
			cfg.Addr = addr
		}
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		conn, err := session.OpenBare(ctx, cfg)
		if err == nil {
			_, err = conn.Exec(ctx, fmt.Sprintf("KILL CONNECTION %d", id))
			err = errors.Join(err, conn.Close())
		}
		if e, ok := errors.AsType[*mysqlconn.ServerError](err); ok && e.Number == errnoNoSuchThread {
			return nil // it has ended meanwhile
		}
		if err != nil {
			return fmt.Errorf("kill connection %d through the control account: %w", id, err)
		}
		return nil
	}
}

package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/config"
)

// killTimeout bounds one KILL, including connecting.
const killTimeout = 5 * time.Second

// newKiller returns a function that kills a connection on a server through the control account: at the
// account's address for the backend, at the server's for another one.
func newKiller(c config.ControlURL, backend config.Address) func(addr string, connectionID uint32) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd = c.User, c.Password.Reveal()
	cfg.Net = "tcp"
	cfg.TLSConfig = "preferred"
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = killTimeout, killTimeout, killTimeout
	return func(addr string, id uint32) error {
		cfg := cfg.Clone()
		if cfg.Addr = addr; addr == string(backend) {
			cfg.Addr = string(c.Addr)
		}
		connector, err := mysql.NewConnector(cfg)
		if err != nil {
			return fmt.Errorf("control account: %w", err)
		}
		db := sql.OpenDB(connector)
		defer db.Close()
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		if _, err := db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err != nil {
			return fmt.Errorf("kill connection %d through the control account: %w", id, err)
		}
		return nil
	}
}

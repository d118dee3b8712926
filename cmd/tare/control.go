package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/config"
)

// killTimeout bounds one KILL, connecting included.
const killTimeout = 5 * time.Second

// newKiller makes the function that ends a backend connection through the control account.
func newKiller(c config.ControlURL) func(connectionID uint32) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd = c.User, c.Password.Reveal()
	cfg.Net, cfg.Addr = "tcp", string(c.Addr)
	cfg.TLSConfig = "preferred"
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = killTimeout, killTimeout, killTimeout
	return func(id uint32) error {
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

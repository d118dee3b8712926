package rowstream

import (
	"context"
	"fmt"
	"strings"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// ServerIdentity returns what a server is known by under all of its addresses: MySQL's server_uuid, which is of a data
// directory; MariaDB's server_uid, which is of a host and a port, or the host's name and the port before MariaDB 10.10, each with
// the server's id. A copy of a data directory may have the identity of the original, and a MariaDB that moves to another host
// has another one.
func ServerIdentity(ctx context.Context, c *mysqlconn.Client) (string, error) {
	sql := "SELECT CONCAT('mysql ', @@global.server_uuid)"
	if IsMariaDB(c.ServerVersion) {
		var uid string
		if _, err := c.Query(ctx, "SHOW GLOBAL VARIABLES LIKE 'server_uid'", func(row mysqlwire.TextRow) error {
			uid = string(row[1])
			return nil
		}); err != nil {
			return "", fmt.Errorf("read the server's identity: %w", err)
		}
		sql = "SELECT CONCAT('mariadb ', @@global.server_id, ' ', @@global.hostname, ':', @@global.port)"
		if uid != "" {
			sql = "SELECT CONCAT('mariadb ', @@global.server_id, ' ', @@global.server_uid)"
		}
	}
	identity := ""
	if _, err := c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
		identity = string(row[0])
		return nil
	}); err != nil {
		return "", fmt.Errorf("read the server's identity: %w", err)
	}
	return identity, nil
}

// Identity returns the ServerIdentity of the server.
func (d *Direct) Identity(ctx context.Context) (identity string, err error) {
	err = d.Use(ctx, func(c *mysqlconn.Client) (err error) {
		identity, err = ServerIdentity(ctx, c)
		return err
	})
	return identity, err
}

// IsMariaDB reports whether a server's version is MariaDB's.
func IsMariaDB(version string) bool { return strings.Contains(strings.ToLower(version), "mariadb") }

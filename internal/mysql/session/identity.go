package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// ServerIdentity returns an identifier of a server that is independent of its address: MySQL's server_uuid,
// which belongs to a data directory; MariaDB's server_uid, which belongs to a host and a port, or the host's
// name and the port before MariaDB 10.10, each with the server's id. A copy of a data directory may have the
// identity of the original, and a MariaDB server that moves to another host gets another one.
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
	identity, err := QueryValue(ctx, c, sql)
	if err != nil {
		return "", fmt.Errorf("read the server's identity: %w", err)
	}
	return identity, nil
}

// A Querier is a server whose own tables can be queried.
type Querier interface {
	Query(ctx context.Context, sql string, each func(mysqlwire.TextRow) error) error
}

// SameServer reports whether a connection and another server are the same server. Servers have many names: a
// host's name, its address, a forwarded port; and identities are copied with their data. So it is tested: a
// lock that is acquired over one is visible over the other.
func SameServer(ctx context.Context, c *mysqlconn.Client, other Querier) (same bool, err error) {
	name := "tare.same." + rand.Text()
	got, err := QueryValue(ctx, c, "SELECT GET_LOCK("+Literal(name)+", 0)")
	if err != nil {
		return false, fmt.Errorf("find out which server is which: %w", err)
	}
	if got != "1" {
		return false, errors.New("find out which server is which: the server gives no lock")
	}
	defer func() {
		_, releaseErr := QueryValue(ctx, c, "SELECT RELEASE_LOCK("+Literal(name)+")")
		err = errors.Join(err, releaseErr)
	}()
	if err := other.Query(ctx, "SELECT IS_FREE_LOCK("+Literal(name)+")", func(row mysqlwire.TextRow) error {
		same = string(row[0]) != "1"
		return nil
	}); err != nil {
		return false, fmt.Errorf("find out which server is which: %w", err)
	}
	return same, nil
}

// IsServer reports whether the server of a connection is the one at an address, using the account of cfg.
func IsServer(ctx context.Context, c *mysqlconn.Client, cfg mysqlconn.Config, addr string) (bool, error) {
	cfg.Addr = addr
	other, err := Connect(ctx, cfg)
	if err != nil {
		return false, err
	}
	same, err := SameServer(ctx, c, querier{other})
	return same, errors.Join(err, other.Close())
}

// A querier is a connection as a Querier.
type querier struct{ c *mysqlconn.Client }

func (q querier) Query(ctx context.Context, sql string, each func(mysqlwire.TextRow) error) error {
	_, err := q.c.Query(ctx, sql, each)
	return err
}

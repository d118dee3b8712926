package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Open connects to a server and logs in, as mysqlconn.Dial, and prepares the session: it has the values of the
// table, or those of own. After a nil error they are in effect. Variables that the server does not have are
// left out, but not those of own. ConnectionID and ServerVersion of the result are those of the server, even
// if a proxy has sent others in its greeting.
func Open(ctx context.Context, cfg mysqlconn.Config, own ...Value) (*mysqlconn.Client, error) {
	return open(ctx, cfg, true, own)
}

// OpenReader is Open for sessions that only read the server's own tables: statistics, plans, metrics. It
// leaves restricted settings alone, which affect definitions and writes.
func OpenReader(ctx context.Context, cfg mysqlconn.Config, own ...Value) (*mysqlconn.Client, error) {
	return open(ctx, cfg, false, own)
}

// OpenBare connects to a server without settings: for commands whose result does not depend on any.
func OpenBare(ctx context.Context, cfg mysqlconn.Config) (*mysqlconn.Client, error) {
	return mysqlconn.Dial(ctx, cfg)
}

func open(ctx context.Context, cfg mysqlconn.Config, restricted bool, own []Value) (*mysqlconn.Client, error) {
	c, err := mysqlconn.Dial(ctx, cfg)
	if err != nil {
		return nil, withAdvice(err)
	}
	id, version, err := prepare(ctx, c, c.ServerVersion, restricted, own)
	if err != nil {
		_ = c.Close() // nothing was done
		return nil, fmt.Errorf("prepare the session at %s: %w", cfg.Addr, err)
	}
	c.ConnectionID, c.ServerVersion = id, version
	return c, nil
}

// withAdvice adds the meaning to a refusal for a reason that MariaDB does not name.
func withAdvice(err error) error {
	var refused *mysqlconn.ServerError
	if errors.As(err, &refused) && refused.Number == mysqlwire.ErrnoAccessDenied && IsMariaDB(refused.Version) {
		return fmt.Errorf("%w; if the account and its password are right: does it, or the server (require_secure_transport), require TLS?", err)
	}
	return err
}

// Renew restores the settings of a session of OpenReader for another use: it sets again what an earlier use may
// have changed.
func Renew(ctx context.Context, c *mysqlconn.Client, own ...Value) error {
	_, _, err := prepare(ctx, c, c.ServerVersion, false, own)
	return err
}

// mostTries bounds the round trips of prepare: a server may lack any number of the table's variables, and each
// refusal names one.
const mostTries = 64

// prepare sets the values of the table for the kind of server, and own. It returns the connection's number and
// the version, which are not those of a proxy.
func prepare(ctx context.Context, c *mysqlconn.Client, greeted string, restricted bool, own []Value) (id uint32, version string, err error) {
	values := valuesOf(greeted, restricted, own)
	for range mostTries {
		b := batch{values: values}
		err := b.run(ctx, c)
		if name := unknownVariable(err, values); name != "" && !isIn(own, name) {
			values = without(values, name)
			continue
		}
		if err != nil {
			return 0, "", b.blame(ctx, c, err)
		}
		if IsMariaDB(b.version) != IsMariaDB(greeted) { // the greeting was a proxy's
			greeted = b.version
			values = valuesOf(greeted, restricted, own)
			continue
		}
		return b.id, b.version, b.check(ctx, c)
	}
	return 0, "", fmt.Errorf("the server refuses the settings one after the other, %d times", mostTries)
}

// IsMariaDB reports whether a version is that of MariaDB.
func IsMariaDB(version string) bool { return strings.Contains(strings.ToLower(version), "mariadb") }

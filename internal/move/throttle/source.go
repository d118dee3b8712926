package throttle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// sourceTimeout bounds one poll of a metric, including the connection.
const sourceTimeout = 3 * time.Second

// A source returns the metric of a limit. It is used by one goroutine.
type source interface {
	value(ctx context.Context) (float64, error)
	close()
}

// A sqlRead reads a metric over a connection.
type sqlRead func(context.Context, *mysqlconn.Client) (float64, error)

// A sqlSource polls a server over a separate connection.
type sqlSource struct {
	cfg  mysqlconn.Config
	read sqlRead

	c *mysqlconn.Client // nil when it was lost
}

func (s *sqlSource) value(ctx context.Context) (v float64, err error) {
	if s.c == nil {
		if s.c, err = session.OpenReader(ctx, s.cfg); err != nil {
			return 0, err
		}
	}
	v, err = s.read(ctx, s.c)
	var refused *mysqlconn.ServerError
	if err != nil && !errors.As(err, &refused) {
		s.close()
	}
	return v, err
}

func (s *sqlSource) close() {
	if s.c != nil {
		_ = s.c.Close() // it only read
		s.c = nil
	}
}

// readNumber reads the column with the given number of a statement's only row.
func readNumber(sql string, column int) sqlRead {
	return func(ctx context.Context, c *mysqlconn.Client) (v float64, err error) {
		rows := 0
		_, queryErr := c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
			if rows++; rows > 1 || len(row) <= column {
				return nil
			}
			v, err = parseNumber(row[column])
			return nil
		})
		switch {
		case queryErr != nil:
			return 0, queryErr
		case rows != 1:
			return 0, fmt.Errorf("%s returns %d rows, not one", sql, rows)
		}
		return v, err
	}
}

// Columns of SHOW REPLICA STATUS, the same in MySQL and MariaDB.
const (
	replicaSQLError = 19
	replicaIOError  = 35
	replicaLag      = 32
)

// readLag returns the lag of a replica in seconds: that of its slowest channel.
func readLag(ctx context.Context, c *mysqlconn.Client) (lag float64, err error) {
	rows := 0
	each := func(row mysqlwire.TextRow) error {
		if rows++; len(row) <= replicaIOError {
			err = fmt.Errorf("SHOW REPLICA STATUS has %d columns", len(row))
			return nil
		}
		if row[replicaLag] == nil {
			err = fmt.Errorf("it does not replicate now: %s", strings.TrimSpace(string(row[replicaSQLError])+" "+string(row[replicaIOError])))
			return nil
		}
		v, figureErr := parseNumber(row[replicaLag])
		err = errors.Join(err, figureErr)
		lag = max(lag, v)
		return nil
	}
	_, queryErr := c.Query(ctx, "SHOW REPLICA STATUS", each)
	var refused *mysqlconn.ServerError
	if errors.As(queryErr, &refused) && refused.Number == errSyntax { // before MySQL 8.0.22 and MariaDB 10.5
		_, queryErr = c.Query(ctx, "SHOW SLAVE STATUS", each)
	}
	switch {
	case queryErr != nil:
		return 0, queryErr
	case rows == 0:
		return 0, errors.New("it is not a replica")
	}
	return lag, err
}

const errSyntax = 1064

// A gatewaySource polls a gateway for the p99 of the last second, in milliseconds.
type gatewaySource struct{ client *gatewayclient.Client }

func (s gatewaySource) close() { s.client.Close() }

func (s gatewaySource) value(ctx context.Context) (float64, error) {
	p99, err := s.client.P99(ctx)
	return milliseconds(p99), err
}

package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var (
	// ErrNotLogged is the cause of errors for a server that may write to tables without logging it.
	ErrNotLogged = errors.New("the binary log of the server does not have all changes")

	// ErrLogUnseen is the cause of those errors if the user lacks the privileges to find out.
	ErrLogUnseen = errors.New("missing privileges")
)

// A Channel is a row of SHOW REPLICA STATUS: a primary that the server replicates from.
type Channel struct {
	Host, Port string
	running    bool // one of its threads is running
}

// A Logging describes how a server logs changes, as far as the user may see it.
type Logging struct {
	On bool // log_bin

	updates  bool // log_slave_updates: replicated changes are logged too
	readOnly bool
	exact    bool // names of schemas are case-sensitive

	Channels    []Channel
	ChannelsErr error // why they cannot be read; nil: they can

	doDB, ignoreDB []string
	filtersErr     error // why they cannot be read; nil: they can
}

// IsReplica reports whether the server currently replicates from another one.
func (l *Logging) IsReplica() bool {
	return l.readOnly && len(l.Channels) > 0 || slices.ContainsFunc(l.Channels, func(c Channel) bool { return c.running })
}

// ReadLogging reads a server's settings of its log. Settings that the account may not see are errors in the
// result.
func ReadLogging(ctx context.Context, c *mysqlconn.Client) (l Logging, err error) {
	for _, v := range []struct {
		to    *bool
		names []string
	}{{&l.On, []string{"log_bin"}}, {&l.updates, []string{"log_slave_updates", "log_replica_updates"}}, {&l.readOnly, []string{"read_only"}}} {
		value, err := firstVariable(ctx, c, v.names...)
		if err != nil {
			return l, err
		}
		*v.to = value != "0" && !strings.EqualFold(value, "OFF") // MariaDB 12 has more values than ON
	}
	value, err := Variable(ctx, c, "lower_case_table_names")
	if err != nil {
		return l, err
	}
	l.exact = value == "0"
	if l.Channels, l.ChannelsErr = readChannels(ctx, c); l.ChannelsErr != nil && !mayLack(l.ChannelsErr) {
		return l, l.ChannelsErr
	}
	l.filtersErr = queryFirst(ctx, c, func(row mysqlwire.TextRow) error {
		if len(row) > 3 {
			l.doDB, l.ignoreDB = splitNames(row[2]), splitNames(row[3])
		}
		return nil
	}, "SHOW MASTER STATUS", "SHOW BINARY LOG STATUS")
	if l.filtersErr != nil && !mayLack(l.filtersErr) {
		return l, l.filtersErr
	}
	return l, nil
}

func splitNames(list []byte) (names []string) {
	for name := range strings.SplitSeq(string(list), ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// firstVariable returns the value of the first variable that the server has.
func firstVariable(ctx context.Context, c *mysqlconn.Client, names ...string) (value string, err error) {
	for _, name := range names {
		value, err = Variable(ctx, c, name)
		if !IsUnknownVariable(err) {
			break
		}
	}
	return value, err
}

// queryFirst executes the first statement that the server's parser accepts.
func queryFirst(ctx context.Context, c *mysqlconn.Client, row func(mysqlwire.TextRow) error, statements ...string) (err error) {
	for _, sql := range statements {
		_, err = c.Query(ctx, sql, row)
		var refused *mysqlconn.ServerError
		if !errors.As(err, &refused) || refused.Number != errParse {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", statements[0], err)
	}
	return err
}

// Columns of SHOW SLAVE STATUS, the same in MySQL and MariaDB; SHOW ALL SLAVES STATUS has two more before
// them.
const (
	channelHost = 1
	channelPort = 3
	channelIO   = 10
	channelSQL  = 11
)

// readChannels reads the servers that a server replicates from.
func readChannels(ctx context.Context, c *mysqlconn.Client) (all []Channel, err error) {
	shift, statements := 0, []string{"SHOW REPLICA STATUS", "SHOW SLAVE STATUS"}
	if IsMariaDB(c.ServerVersion) {
		shift, statements = 2, []string{"SHOW ALL SLAVES STATUS"}
	}
	err = queryFirst(ctx, c, func(row mysqlwire.TextRow) error {
		if len(row) <= channelSQL+shift {
			return fmt.Errorf("%d columns", len(row))
		}
		is := func(at int, value string) bool { return strings.EqualFold(string(row[at+shift]), value) }
		all = append(all, Channel{
			Host: string(row[channelHost+shift]), Port: string(row[channelPort+shift]), running: !is(channelIO, "No") || !is(channelSQL, "No"),
		})
		return nil
	}, statements...)
	return all, err
}

// CheckLogged returns an error if a server may write to tables in the schemas without logging it. The error
// wraps ErrNotLogged.
func (l *Logging) CheckLogged(schemas []string) error {
	refuse := func(format string, a ...any) error {
		return fmt.Errorf("%w: %w", ErrNotLogged, fmt.Errorf(format, a...))
	}
	same := func(a, b string) bool { return a == b || !l.exact && strings.EqualFold(a, b) }
	switch {
	case !l.On:
		return refuse("log_bin is off: start the server with --log-bin")
	case !l.updates && len(l.Channels) > 0:
		return refuse("it is a replica (of %s), and log_slave_updates (log_replica_updates) is OFF: changes that are replicated to it are not logged; "+
			"start it with --log-slave-updates=ON (--log-replica-updates=ON), or read from its primary", net.JoinHostPort(l.Channels[0].Host, l.Channels[0].Port))
	case !l.updates && l.ChannelsErr != nil:
		return refuse("log_slave_updates (log_replica_updates) is OFF, and the user may not see whether the server is a replica: %w: %w; "+
			"GRANT REPLICATION CLIENT, on MariaDB REPLICA MONITOR, ON *.* TO it", ErrLogUnseen, l.ChannelsErr)
	case l.filtersErr != nil:
		return refuse("the user may not see whether schemas are left out of it: %w: %w; GRANT REPLICATION CLIENT ON *.* TO it", ErrLogUnseen, l.filtersErr)
	}
	for _, s := range schemas {
		switch {
		case len(l.doDB) > 0 && !slices.ContainsFunc(l.doDB, func(name string) bool { return same(s, name) }):
			return refuse("only changes in the schemas %s are logged (binlog-do-db), and %s is not one of them: start the server without it", strings.Join(l.doDB, ", "), s)
		case slices.ContainsFunc(l.ignoreDB, func(name string) bool { return strings.EqualFold(s, name) }):
			return refuse("changes in the schema %s are not logged (binlog-ignore-db): start the server without it", s)
		}
	}
	return nil
}

package binlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// checkLog returns an error if the binary log of a server may lack changes of tables in the schemas, or has
// them in a form that cannot be read.
func checkLog(ctx context.Context, c *mysqlconn.Client, schemas []string) error {
	if err := checkSettings(ctx, c); err != nil {
		return err
	}
	l, err := session.ReadLogging(ctx, c)
	if err == nil {
		err = l.CheckLogged(schemas)
	}
	if err != nil {
		return err
	}
	return checkSessions(ctx, c)
}

// checkSessions returns an error for a session that logs in another format than the server's default. MySQL
// shows sessions to users with sufficient privileges; MariaDB shows none.
func checkSessions(ctx context.Context, c *mysqlconn.Client) error {
	if session.IsMariaDB(c.ServerVersion) {
		return nil
	}
	var wrong error
	_, err := c.Query(ctx, "SELECT t.PROCESSLIST_ID, t.PROCESSLIST_USER, v.VARIABLE_NAME, v.VARIABLE_VALUE FROM performance_schema.variables_by_thread v"+
		" JOIN performance_schema.threads t USING (THREAD_ID)"+
		" WHERE (v.VARIABLE_NAME = 'binlog_format' AND v.VARIABLE_VALUE <> 'ROW' OR v.VARIABLE_NAME = 'binlog_row_image' AND v.VARIABLE_VALUE <> 'FULL')"+
		" AND t.TYPE = 'FOREGROUND' AND t.PROCESSLIST_ID IS NOT NULL AND t.PROCESSLIST_COMMAND NOT LIKE 'Binlog Dump%'", func(row mysqlwire.TextRow) error {
		if wrong == nil {
			wrong = refuseSetting("connection %s of user %q has %s = %s in its session: end it", row[0], row[1], row[2], row[3])
		}
		return nil
	})
	if session.IsUnseen(err) {
		return nil // the user may not see them: the log shows it later
	}
	return errors.Join(err, wrong)
}

// A settingError means that the configuration of a server does not permit following. Retrying does not help.
type settingError struct{ error }

func (e settingError) Unwrap() error { return e.error }

func refuseSetting(format string, a ...any) error { return settingError{fmt.Errorf(format, a...)} }

// IsSetting reports whether an error concerns the configuration of a server, so that retrying does not help.
func IsSetting(err error) bool {
	var setting settingError
	return errors.As(err, &setting) || errors.Is(err, session.ErrNotLogged)
}
